// Draws what the library has computed: every number on the page comes from the data; Plotly draws the charts.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const state = { model: 0, stop: 0, binning: "width", bins: byId("bins").value, smooth: true, other: true, selected: null };
  const sorting = { key: "ece", descending: true };
  const PRINTED = 40; // rows of classes on paper, as the style sheet has it
  const narrow = window.matchMedia("(max-width: 40rem)");
  const printing = window.matchMedia("print");

  // ---------- words and numbers ----------
  const model = () => data.models[state.model];
  const classNames = () => data.classNames[model().classNames];
  const minus = (text) => text.replace("-", "−");
  const percent = (share, digits = 2) => (share === null || share === undefined ? "–" : `${minus((100 * share).toFixed(digits))}%`);
  const points = (share) => (share === null ? "–" : `${share > 0 ? "+" : ""}${minus((100 * share).toFixed(1))}`);
  const number = (value, digits = 4) => (value === null || value === undefined ? "∞" : minus(value.toFixed(digits)));
  const count = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 });
  const sure = (confidence) => (confidence > 0.99995 ? "> 99.99%" : percent(confidence));
  const temperature = (t) => `T = ${t < 10 ? t.toFixed(2) : t.toFixed(1)}`;
  const share = (units) => (units < 0 ? null : units / 10000);
  const shortened = (text, most = 28) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  // Plotly reads a little markup in its texts; names are not markup.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  // A name of somebody's, which may be written from right to left, and must not turn what stands around it.
  const named = (text, tag) => {
    const name = element("bdi", text);
    if (!tag) return name;
    const made = element(tag, undefined, "name");
    made.append(name);
    return made;
  };

  // ---------- what all charts share ----------
  const probe = element("span", undefined, "visually-hidden");
  document.body.append(probe);
  function colour(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }

  function axis(title, more = {}) {
    return {
      title: { text: title, font: { size: 13 }, standoff: 8 }, gridcolor: colour("grid"), linecolor: colour("line"),
      zerolinecolor: colour("line"), automargin: true, tickfont: { size: 12 }, fixedrange: true, ...more,
    };
  }

  function draw(id, traces, xaxis, yaxis, more = {}) {
    const chart = byId(id);
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 56, r: 26, t: 12, b: 44 },
      font: { family: getComputedStyle(document.body).fontFamily, color: colour("ink"), size: 13 },
      hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } },
      dragmode: false, xaxis, yaxis, ...more,
    };
    return Plotly.react(chart, traces, layout, { displayModeBar: false, responsive: true });
  }

  const shares = (title, more = {}) => axis(title, { range: [0, 1], tickformat: ".0%", dtick: 0.2, ticklabeloverflow: "allow", ...more });

  // ---------- reliability ----------
  const currentStop = () => model().stops[state.stop];
  const binsOf = (stop) => stop[state.binning][state.bins];

  // The stop that is drawn faintly beside the chosen one: the fitted one beside T = 1, and T = 1 beside all others.
  function otherStop() {
    const index = state.stop === model().neutral ? model().fitted : model().neutral;
    return index === null || index === state.stop ? null : model().stops[index];
  }

  function filled(bins) {
    const kept = bins.count.map((n, i) => i).filter((i) => bins.count[i] > 0);
    const pick = (values) => kept.map((i) => values[i]);
    return {
      x: pick(bins.x).map(share), y: kept.map((i) => bins.right[i] / bins.count[i]),
      low: pick(bins.low).map(share), high: pick(bins.high).map(share), n: pick(bins.count),
    };
  }

  const diagonal = () => ({
    x: [0, 1], y: [0, 1], mode: "lines", line: { dash: "dash", width: 1.5, color: colour("muted") }, name: "perfect", hoverinfo: "skip", showlegend: false,
  });

  function band(bins, fill) {
    return {
      x: [...bins.x, ...[...bins.x].reverse()], y: [...bins.high, ...[...bins.low].reverse()], fill: "toself", fillcolor: fill,
      mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false,
    };
  }

  function pointsOf(bins, name, more) {
    const largest = Math.max(...bins.n);
    return {
      x: bins.x, y: bins.y, mode: "lines+markers", cliponaxis: false, name, line: { width: 1.5, color: more.color },
      marker: { size: bins.n.map((n) => 6 + 16 * Math.sqrt(n / largest)), color: more.color, line: { color: more.edge || colour("card"), width: 1.5 }, ...more.marker },
      customdata: bins.n.map((n, i) => [count(n), percent(bins.low[i], 1), percent(bins.high[i], 1)]),
      hovertemplate: "says %{x:.1%}, right in %{y:.1%}<br>interval %{customdata[1]} – %{customdata[2]}<br>%{customdata[0]} samples<extra></extra>",
    };
  }

  function drawReliability() {
    const stop = currentStop(), other = otherStop(), bins = filled(binsOf(stop));
    const traces = [diagonal(), band(bins, colour("accent-soft"))];
    if (state.other && other) {
      const faint = pointsOf(filled(binsOf(other)), other.t === 1 ? "uncalibrated" : `fitted, ${temperature(other.t)}`, { color: colour("wrong"), marker: { symbol: "circle-open", size: 9, line: { color: colour("wrong"), width: 2 } } });
      traces.push({ ...faint, line: { width: 1.5, dash: "dot", color: colour("wrong") } });
    }
    traces.push(pointsOf(bins, stop.t === 1 ? "uncalibrated" : temperature(stop.t), { color: colour("accent") }));
    if (state.smooth) {
      const y = stop.smooth.map(share);
      traces.push({ x: y.map((_, i) => i / (y.length - 1)), y, mode: "lines", name: "smooth curve", line: { width: 2.5, color: colour("third") }, hovertemplate: "says %{x:.0%}, right in %{y:.1%}<extra>smooth</extra>" });
    }
    draw("reliability", traces, shares(model().axes.x), shares(model().axes.y));
    drawHistogram(stop);
    byId("reliability").setAttribute("aria-label", `Reliability diagram at ${temperature(stop.t)}: ${byId("ece-title").textContent} ${percent(binsOf(stop).ece)}; the table below has the numbers`);
  }

  // Downwards counts too: its shares have no sign.
  const unsigned = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`−${i + 1}%`, `${i + 1}%`]));

  function drawHistogram(stop) {
    const bins = stop.width["25"], total = bins.count.reduce((a, b) => a + b, 0);
    const centres = bins.count.map((_, i) => (i + 0.5) / bins.count.length);
    const bar = (values, name, color, sign) => ({
      type: "bar", x: centres, y: values.map((value) => sign * value / total), width: 1 / bins.count.length, name, marker: { color, line: { color: colour("card"), width: 1 } },
      customdata: values.map((value) => [count(value), percent(value / total, 1)]), hovertemplate: `${name}: %{customdata[0]} (%{customdata[1]} of all)<extra></extra>`,
    });
    const outcomes = model().outcomes;
    const right = bar(bins.right, outcomes[0], colour("accent"), 1);
    const wrong = bar(bins.count.map((n, i) => n - bins.right[i]), outcomes[1], colour("wrong"), -1);
    const most = Math.max(...right.y), least = Math.min(...wrong.y);
    draw("histogram", [right, wrong], shares(model().axes.x), axis("share of samples", { tickformat: ".0%", range: [Math.min(1.15 * least, -0.08 * most), 1.08 * most], nticks: 5, labelalias: unsigned }), { barmode: "overlay", bargap: 0 });
  }

  function showNumbers() {
    const stop = currentStop(), bins = binsOf(stop);
    byId("temperature").setAttribute("aria-valuetext", temperature(stop.t) + (state.stop === model().fitted ? ", fitted" : ""));
    byId("temperature-value").textContent = temperature(stop.t);
    byId("ece-title").textContent = state.binning === "width" ? "ECE" : "AdaECE";
    const texts = {
      ece: percent(bins.ece), floor: bins.floor === undefined ? "–" : percent(bins.floor), nll: number(stop.nll),
      confidence: percent(stop.confidence), accuracy: percent(stop.accuracy), temperature: temperature(stop.t),
    };
    for (const [name, text] of Object.entries(texts)) byId(`live-${name}`).textContent = text;
    const other = otherStop();
    byId("other").disabled = other === null;
    byId("other-name").textContent = other === null ? "nothing to compare with" : `beside it: ${other.t === 1 ? "uncalibrated (T = 1)" : `fitted (${temperature(other.t)})`}`;
    showBins(filled(bins));
  }

  function showBins(bins) {
    const rows = bins.x.map((x, i) => {
      const row = element("tr");
      const cells = [percent(x, 1), percent(bins.y[i], 1), `${percent(bins.low[i], 1)} – ${percent(bins.high[i], 1)}`, count(bins.n[i])];
      row.append(...cells.map((text) => element("td", text)));
      return row;
    });
    byId("bin-table").tBodies[0].replaceChildren(...rows);
  }

  function goTo(index) {
    state.stop = index;
    byId("temperature").value = index;
    showNumbers();
    drawReliability();
  }

  // At the ends of the slider, a mark's words stand inside of it.
  function placeMark(id, place) {
    const mark = byId(id);
    mark.style.left = `${100 * place}%`;
    mark.classList.toggle("at-start", place < 0.15);
    mark.classList.toggle("at-end", place > 0.85);
  }

  function setSlider() {
    const { stops, neutral, fitted } = model(), last = stops.length - 1;
    byId("temperature").max = last;
    placeMark("mark-neutral", neutral / last);
    byId("mark-fitted").hidden = byId("go-fitted").hidden = fitted === null;
    if (fitted !== null) {
      placeMark("mark-fitted", fitted / last);
      byId("mark-fitted").textContent = `fitted ${temperature(stops[fitted].t)}`;
      byId("go-fitted").textContent = `Fitted (${temperature(stops[fitted].t)}, by ${model().criterion})`;
    }
  }

  // ---------- what is measured ----------
  function showMeasured() {
    // A confidence of an answer has no classes, and a score no answers that could be withheld.
    const leaves = { score: ["coverage"], confidence: ["classes", "mistakes"] }[model().of] || [];
    for (const name of ["coverage", "classes", "mistakes"]) byId(`h-${name}`).closest("section").hidden = leaves.includes(name);
    byId("live-confidence-title").textContent = `mean ${model().axes.x}`;
    byId("live-accuracy-title").textContent = model().axes.y;
  }

  // ---------- coverage ----------
  function drawCoverage() {
    const styles = [{ color: colour("accent"), width: 2.5 }, { color: colour("wrong"), width: 2, dash: "dot" }];
    const traces = model().coverage.map((curve, i) => ({
      x: curve.y.map((_, j) => (j + 1) / curve.y.length), y: curve.y.map(share), name: curve.name, mode: "lines", line: styles[i],
      customdata: curve.threshold.map((c) => percent(share(c), 1)),
      hovertemplate: "answering %{x:.0%} (confidence from %{customdata})<br>%{y:.2%} right<extra></extra>",
    }));
    const claimed = model().before.values.confident_share, right = model().before.values.confident_accuracy;
    if (claimed && right !== null) traces.push({ x: [claimed], y: [right], mode: "markers", name: "|S99|", marker: { size: 12, symbol: "diamond", color: colour("third") }, hovertemplate: "%{x:.1%} are at least 99% sure<br>%{y:.2%} of them right<extra></extra>" });
    const lowest = Math.min(...model().coverage.flatMap((curve) => curve.y.map(share)));
    const floor = Math.max(0, Math.floor(20 * (lowest - 0.01)) / 20);
    draw("coverage", traces, shares("share of samples answered, most confident first"), axis("accuracy of the answers", { range: [floor, 1 + 0.02 * (1 - floor)], tickformat: ".0%" }));
    const half = share(model().coverage[0].y[Math.round(model().coverage[0].y.length / 2) - 1]);
    const whole = share(model().coverage[0].y.at(-1));
    byId("coverage-text").textContent = `Answering everything, ${percent(whole, 1)} is right; answering the more confident half, ${percent(half, 1)}. ` +
      (claimed ? `|S99|: ${percent(claimed, 1)} of all predictions claim at least 99%, and ${percent(right, 1)} of those are right.` : "No prediction claims 99% or more.");
  }

  // ---------- classes ----------
  function gapInterval(classes, i) {
    if (classes.low[i] === null) return "–";
    const told = classes.p[i] !== null && classes.p[i] <= 0.05;
    return `${points(classes.low[i])} … ${points(classes.high[i])}${told ? " ✱" : ""}`;
  }
  function sortedRows() {
    const { classes } = model(), names = classNames(), wanted = byId("class-filter").value.trim().toLowerCase();
    const places = classes.rows.map((_, i) => i).filter((i) => names[classes.rows[i]].toLowerCase().includes(wanted));
    const value = (i) => (sorting.key === "name" ? names[classes.rows[i]] : classes[sorting.key][i]);
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
    return places.sort((i, j) => {
      const a = value(i), b = value(j);
      if (a === null || b === null) return (a === null) - (b === null);
      return (sorting.descending ? -1 : 1) * compare(a, b);
    });
  }

  function markRow(row) {
    const choose = row.querySelector("button"), chosen = Number(choose.dataset.label) === state.selected;
    row.classList.toggle("selected", chosen);
    choose.setAttribute("aria-pressed", chosen);
  }

  function showClasses() {
    const { classes } = model(), names = classNames(), places = sortedRows();
    const rows = places.map((i) => {
      const label = classes.rows[i], row = element("tr"), head = element("th"), choose = element("button");
      head.scope = "row";
      choose.type = "button";
      choose.append(named(names[label]));
      choose.dataset.label = label;
      head.append(choose);
      const cells = [count(classes.n[i]), percent(classes.accuracy[i], 1), percent(classes.confidence[i], 1), points(classes.gap[i]), gapInterval(classes, i), count(classes.labelled[i]), percent(classes.recall[i], 1), percent(classes.ece[i], 3)];
      row.append(head, ...cells.map((text) => element("td", text)));
      markRow(row);
      return row;
    });
    byId("classes").tBodies[0].replaceChildren(...rows);
    const all = names.length, listed = classes.rows.length;
    byId("class-count").textContent = `${count(places.length)} of ${count(all)} classes` + (listed < all ? ` (the ${count(listed)} of the largest classwise ECE are listed)` : "");
    byId("class-printed").textContent = places.length > PRINTED ? `Printed are the first ${PRINTED} of ${count(all)} classes.` : "";
    for (const head of byId("classes").tHead.rows[0].cells) {
      if (head.dataset.key === sorting.key) head.setAttribute("aria-sort", sorting.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  function selectClass(label) {
    state.selected = label;
    for (const row of byId("classes").tBodies[0].rows) markRow(row);
    byId("class-name").replaceChildren(named(classNames()[label]));
    const found = model().classes.diagrams[label];
    byId("class-diagram").hidden = found === undefined;
    if (found === undefined) {
      byId("class-name").append(" (no diagram: its calibration error is among the smallest)");
      return;
    }
    const bins = filled(found);
    draw("class-diagram", [diagonal(), band(bins, colour("accent-soft")), { ...pointsOf(bins, "", { color: colour("accent") }), showlegend: false }], shares("probability of the class"), shares("how often it is the label"), { margin: { l: 56, r: 26, t: 8, b: 44 } });
    byId("class-diagram").setAttribute("aria-label", `Reliability diagram of class ${classNames()[label]}`);
  }

  // ---------- mistakes ----------
  function showMistakes() {
    const names = classNames();
    const items = model().mistakes.map((mistake) => {
      const item = element("li"), words = element("span", undefined, "words");
      if (Object.hasOwn(data.images, mistake.id)) {
        const image = element("img");
        image.src = data.images[mistake.id];
        image.alt = `Sample ${mistake.id}`;
        item.append(image);
      }
      const id = element("span", undefined, "id");
      id.append(named(mistake.id));
      words.append(named(names[mistake.label]), " taken for ", named(names[mistake.prediction]), id);
      item.append(words, element("span", sure(mistake.confidence), "sure"));
      return item;
    });
    byId("mistakes").replaceChildren(...(items.length ? items : [element("li", "There are no mistakes.")]));
    const rows = model().confusions.map(([label, prediction, often, confidence]) => {
      const row = element("tr"), head = named(names[label], "th");
      head.scope = "row";
      row.append(head, named(names[prediction], "td"), element("td", count(often)), element("td", percent(confidence, 1)));
      return row;
    });
    byId("confusions").tBodies[0].replaceChildren(...rows);
  }

  // ---------- out of distribution, training, comparison ----------
  const palette = () => ["accent", "wrong", "third", "good", "muted", "ink"].map(colour);

  function drawOod() {
    if (!byId("ood")) return;
    const curves = model().ood, colours = palette();
    byId("ood-section").hidden = curves.length === 0;
    if (!curves.length) return;
    const traces = curves.map((curve, i) => ({ x: curve.x.map(share), y: curve.y.map(share), mode: "lines", name: plain(`${shortened(curve.name)}: AUROC ${curve.auroc.toFixed(3)}`), line: { color: colours[i % colours.length], width: 2.5 } }));
    draw("ood", [diagonal(), ...traces], shares("in-distribution samples flagged"), shares("out-of-distribution samples flagged"));
    byId("ood-text").replaceChildren(...curves.flatMap((curve, i) => [i ? "; " : "", named(curve.name), `: AUROC ${curve.auroc.toFixed(4)}`]));
  }

  const epochs = (curves) => axis("epoch", curves.epochs.length <= 10 ? { dtick: 1 } : { tickformat: "d" });

  function trainingChart(key, title) {
    const box = element("div", undefined, "chart");
    box.id = `training-${key}`;
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${title} by epoch`);
    return box;
  }

  function drawTraining() {
    if (!byId("training")) return;
    const curves = model().curves;
    byId("training-section").hidden = curves === null;
    if (curves === null) return;
    const panels = { nll: ["nll"], error: ["error"], ece: ["ece"], entropy: ["entropy_right", "entropy_wrong"] };
    const shown = Object.entries(panels).filter(([, keys]) => Object.values(curves.values).some((of) => keys.some((key) => of[key])));
    byId("training").replaceChildren(...shown.map(([id, keys]) => trainingChart(id, curves.titles[keys[0]][0])));
    for (const [id, keys] of shown) drawCurves(id, keys, curves);
    const shares = Object.entries(curves.gammas), colours = palette();
    if (!shares.length) return;
    byId("training").append(trainingChart("gammas", "shares of γ"));
    const traces = shares.map(([gamma, y], i) => ({ x: curves.epochs, y, mode: "lines", stackgroup: "all", name: `γ = ${plain(gamma)}`, line: { color: colours[i % colours.length], width: 1 } }));
    draw("training-gammas", traces, epochs(curves), axis("share of samples", { range: [0, 1], tickformat: ".0%" }));
  }

  function drawCurves(id, keys, curves) {
    const colours = palette(), dashes = ["solid", "dot"], words = { train_eval: "train (evaluated)" };
    const [title, unit] = curves.titles[keys[0]], traces = [];
    Object.entries(curves.values).forEach(([split, of], i) => keys.forEach((key, j) => {
      if (!of[key]) return;
      const name = (words[split] || split) + (keys.length > 1 ? (j ? ", wrong" : ", right") : "");
      const few = of[key].filter((value) => value !== null).length <= 12;
      traces.push({ x: curves.epochs, y: of[key], name, mode: few ? "lines+markers" : "lines", connectgaps: true, line: { color: colours[i], dash: dashes[j], width: 2 } });
    }));
    const label = keys.length > 1 ? "entropy (nats)" : unit === "%" ? title : `${title} (${unit})`;
    draw(`training-${id}`, traces, epochs(curves), axis(label, unit === "%" ? { tickformat: ".1%" } : {}));
  }

  function drawBars() {
    if (!byId("bars")) return;
    const slanted = data.models.length > 5 || narrow.matches;
    const labels = data.models.map((each) => plain(shortened(each.name, slanted ? 20 : 28)));
    const wide = 0.32;
    const bars = (when, name, color, side) => {
      const chosen = data.models.map((each) => each[when]), x = chosen.map((_, i) => i + side * wide / 2);
      const ends = chosen.map((each) => (each && each.intervals.ece && each.intervals.ece[0] !== null ? each.intervals.ece : null));
      return [
        { type: "bar", name, x, y: chosen.map((each) => (each === null ? null : each.values.ece)), width: wide, marker: { color }, hovertemplate: "%{y:.2%}<extra></extra>" },
        // An interval need not hold the bar's end: it hangs on its own middle.
        {
          x, y: ends.map((of) => of && (of[0] + of[1]) / 2), mode: "markers", marker: { size: 1, opacity: 0 }, hoverinfo: "skip", showlegend: false,
          error_y: { type: "data", array: ends.map((of) => of && (of[1] - of[0]) / 2), color: colour("ink"), thickness: 1.2, width: 4 },
        },
      ];
    };
    draw("bars", [...bars("before", "uncalibrated", colour("wrong"), -1), ...bars("after", "scaled", colour("accent"), 1)], axis("", { tickvals: labels.map((_, i) => i), ticktext: labels, tickangle: slanted ? -35 : 0 }), axis("ECE", { tickformat: ".1%", rangemode: "tozero" }), { barmode: "overlay" });
  }

  function filterPairs() {
    const table = byId("pairs");
    if (!table) return;
    const metric = byId("pair-metric").value, when = byId("pair-when") ? byId("pair-when").value : "before";
    const chosen = metric === "error" ? "before" : when;
    for (const row of table.tBodies[0].rows) row.hidden = row.dataset.metric !== metric || row.dataset.when !== chosen;
  }

  // ---------- the page ----------
  function drawAll() {
    drawReliability();
    showMeasured();
    drawCoverage();
    if (state.selected !== null) selectClass(state.selected);
    drawOod();
    drawTraining();
    drawBars();
  }

  // One after another, so that the page answers in between; the mark is there when all are done.
  function inTurn(tasks) {
    delete document.documentElement.dataset.drawn;
    const queue = [...tasks, () => { document.documentElement.dataset.drawn = "true"; }];
    const next = () => {
      queue.shift()();
      if (queue.length) setTimeout(next);
    };
    setTimeout(next);
  }

  function showFirstClass() {
    showClasses();
    const first = sortedRows()[0];
    if (first !== undefined) selectClass(model().classes.rows[first]);
  }

  function chooseModel(index) {
    state.model = index;
    state.stop = model().neutral;
    state.selected = null;
    for (const part of document.querySelectorAll(".of-model")) part.hidden = Number(part.dataset.model) !== index;
    setSlider();
    byId("temperature").value = state.stop;
    showNumbers();
    drawReliability();
    inTurn([drawCoverage, showFirstClass, showMistakes, drawOod, drawTraining]);
  }

  function nextTheme() {
    const order = ["as the system", "light", "dark"], root = document.documentElement;
    const next = order[(order.indexOf(root.dataset.theme || order[0]) + 1) % order.length];
    if (next === order[0]) delete root.dataset.theme;
    else root.dataset.theme = next;
    byId("theme-name").textContent = next;
    drawAll();
  }

  function listen() {
    byId("temperature").addEventListener("input", (event) => goTo(Number(event.target.value)));
    byId("go-neutral").addEventListener("click", () => goTo(model().neutral));
    byId("go-fitted").addEventListener("click", () => goTo(model().fitted));
    const again = () => { showNumbers(); drawReliability(); };
    for (const radio of document.querySelectorAll("input[name=binning]")) radio.addEventListener("change", () => { state.binning = radio.value; again(); });
    byId("bins").addEventListener("change", (event) => { state.bins = event.target.value; again(); });
    for (const name of ["smooth", "other"]) byId(name).addEventListener("change", (event) => { state[name] = event.target.checked; again(); });
    byId("classes").tHead.addEventListener("click", (event) => {
      const head = event.target.closest("th");
      if (!head) return;
      sorting.descending = sorting.key === head.dataset.key ? !sorting.descending : head.dataset.key !== "name";
      sorting.key = head.dataset.key;
      showClasses();
    });
    byId("classes").tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row) selectClass(Number(row.querySelector("button").dataset.label));
    });
    byId("class-filter").addEventListener("input", showClasses);
    byId("theme").addEventListener("click", nextTheme);
    byId("model")?.addEventListener("change", (event) => chooseModel(Number(event.target.value)));
    for (const id of ["pair-metric", "pair-when"]) byId(id)?.addEventListener("change", filterPairs);
    const redraw = () => requestAnimationFrame(drawAll);
    for (const query of [window.matchMedia("(prefers-color-scheme: dark)"), printing, narrow]) query.addEventListener("change", redraw);
  }

  function offerDownload() {
    const numbers = JSON.stringify(JSON.parse(byId("numbers").textContent), null, 2);
    byId("download").href = URL.createObjectURL(new Blob([numbers], { type: "application/json" }));
    byId("download").download = "numbers.json";
  }

  listen();
  offerDownload();
  filterPairs();
  drawBars();
  chooseModel(0);
  document.documentElement.dataset.ready = "true";
})();
