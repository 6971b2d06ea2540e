"""Hugging Face's Trainer: focal loss with accumulated gradients, calibration metrics, the best model by scaled NLL.

    python examples/hugging_face.py [--quick]

Needs pip install 'focalcal[transformers]'. The model is a small BERT made from a configuration, and the texts are drawn
at random, so that nothing is downloaded. Writes checkpoints to the current folder.
"""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import focalcal as fc
from focalcal.integrations.transformers import GammaCallback, calibration_metrics, loss_function

QUICK = "--quick" in sys.argv
EPOCHS = 2 if QUICK else 6
TOPICS, WORDS, LENGTH = 4, 60, 12


def draw_texts(count: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Draw texts of 12 words: each of four topics has its favourite words, and all topics have all words."""
    favourites = torch.randn(TOPICS, WORDS, generator=torch.Generator().manual_seed(0)).softmax(1)
    generator = torch.Generator().manual_seed(seed)
    topics = torch.randint(TOPICS, (count,), generator=generator)
    words = torch.multinomial(favourites[topics], LENGTH, replacement=True, generator=generator)
    return [{"input_ids": row, "labels": topic} for row, topic in zip(words, topics, strict=True)]


def main() -> None:
    """Train, keep the checkpoint that is best after temperature scaling, and calibrate it."""
    torch.manual_seed(0)
    rows = {"train": draw_texts(64 if QUICK else 2000, 1), "val": draw_texts(500, 2), "test": draw_texts(1000, 3)}
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=TOPICS,
    )
    loss = loss_function("flsc-531", epochs=EPOCHS)
    trainer = Trainer(
        BertForSequenceClassification(config),
        TrainingArguments(
            "checkpoints",
            num_train_epochs=EPOCHS,
            learning_rate=2e-3,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=4,
            per_device_eval_batch_size=100,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            load_best_model_at_end=True,
            metric_for_best_model="eval_scaled_nll",
            greater_is_better=False,
            batch_eval_metrics=True,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=rows["train"],
        eval_dataset=rows["val"],
        compute_loss_func=loss,
        compute_metrics=calibration_metrics(["error", "ece", "nll", "scaled_nll", "temperature"]),
        callbacks=[GammaCallback(loss)],
    )
    trainer.train()

    val, test = (
        fc.Predictions.from_logits(found.predictions, found.label_ids, split=split)
        for split, found in ((split, trainer.predict(rows[split])) for split in ("val", "test"))
    )
    scaler = fc.TemperatureScaling().fit(val)
    print(f"T = {scaler.temperature_:.2f} by validation NLL")
    for title, predictions in (("uncalibrated", test), ("calibrated", scaler.transform(test))):
        result = fc.evaluate(predictions, metrics=["error", "ece", "nll"], intervals=False)
        print(f"{title:>13}: error {result['error']:.3f}, ECE {result['ece']:.4f}, NLL {result['nll']:.4f}")


if __name__ == "__main__":
    main()
