// The plots of the overview, fed with a point every other second.
(() => {
  const MOST_POINTS = 150;
  const PLACE = { well: 0, badly: 1, milliseconds: 2 };
  const COLOURS = ["#4477dd", "#d0404c", "#2a9d6f", "#c2841c", "#8f62cc", "#1a98aa", "#c6559a", "#7f8c3a", "#5b6b7d", "#a8623a", "#3f8f3f", "#9a7fd8"];
  const carrier = document.getElementById("rates");
  if (!carrier || typeof uPlot === "undefined") return;

  const points = JSON.parse(carrier.dataset.points);
  const places = [...document.querySelectorAll("[data-plot]")];
  const colours = new Map();
  let plots = [];

  const names = () => [...new Set(points.flatMap((point) => Object.keys(point.series)))].sort();

  function colourOf(name) {
    if (!colours.has(name)) colours.set(name, COLOURS[colours.size % COLOURS.length]);
    return colours.get(name);
  }

  function dataOf(kind, series) {
    const columns = series.map((name) => points.map((point) => {
      const rate = point.series[name];
      if (!rate) return kind === "milliseconds" ? null : 0;
      return rate[PLACE[kind]];
    }));
    return [points.map((point) => point.at), ...columns];
  }

  // A line needs two points; one alone is a dot.
  const isAlone = (plot, index) => plot.data[index].filter((value) => value !== null).length === 1;

  function options(place, series) {
    const style = getComputedStyle(document.documentElement);
    const soft = style.getPropertyValue("--soft").trim();
    const line = style.getPropertyValue("--line").trim();
    const unit = place.dataset.plot === "milliseconds" ? " ms" : "";
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    return {
      width: place.clientWidth,
      height: place.clientHeight,
      legend: { show: false },
      cursor: { y: false },
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
      axes: [
        { ...axis, space: 80, size: 30, values: (_, at) => at.map((each) => new Date(each * 1000).toTimeString().slice(0, 8)) },
        { ...axis, size: 52, values: (_, numbers) => numbers.map((each) => `${each}${unit}`) },
      ],
      series: [{}, ...series.map((name) => ({
        label: name, stroke: colourOf(name), width: 1.75, spanGaps: true, points: { show: isAlone, size: 5 },
      }))],
    };
  }

  function legend(place, series) {
    place.parentElement.querySelector(".legend")?.remove();
    const list = document.createElement("p");
    list.className = "legend";
    for (const name of series) {
      const entry = document.createElement("span");
      const mark = document.createElement("i");
      mark.style.background = colourOf(name);
      entry.append(mark, name.replace("outbound.", ""));
      list.append(entry);
    }
    if (!series.length) list.textContent = "Nothing has flowed yet.";
    place.after(list);
  }

  function draw() {
    plots.forEach((plot) => plot.destroy());
    const series = names();
    plots = places.map((place) => {
      legend(place, series);
      return new uPlot(options(place, series), dataOf(place.dataset.plot, series), place);
    });
    carrier.dataset.series = series.join(" ");
  }

  function add(point) {
    points.push(point);
    while (points.length > MOST_POINTS) points.shift();
    const series = names();
    if (series.join(" ") !== carrier.dataset.series) return draw();
    plots.forEach((plot, index) => plot.setData(dataOf(places[index].dataset.plot, series)));
    carrier.dataset.last = String(point.at);
  }

  draw();
  document.body.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.target !== carrier) return;
    event.preventDefault();
    JSON.parse(event.detail.data).forEach(add);
  });
  new ResizeObserver(() => plots.forEach((plot, index) => {
    plot.setSize({ width: places[index].clientWidth, height: places[index].clientHeight });
  })).observe(document.querySelector(".plots"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
