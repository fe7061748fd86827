"use strict";
// Livens up pages that are whole without it: charts that can be zoomed, a heat map with a cursor, light or dark.
(() => {
  // light-dark() is resolved by asking for the colour of something that has it.
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  const colour = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };

  const theme = document.getElementById("theme");
  const store = (value) => { try { localStorage.setItem("theme", value); } catch { /* private window */ } };
  try { const kept = localStorage.getItem("theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* private window */ }
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    store(document.documentElement.dataset.theme);
    document.querySelectorAll("figure.chart").forEach(start);
  });

  const size = (v) => {
    const units = ["B", "KB", "MB", "GB", "TB", "PB"];
    let at = 0;
    while (v >= 1024 && at < 5) { v /= 1024; at += 1; }
    return `${v >= 100 || at === 0 ? v.toFixed(0) : v.toFixed(1)} ${units[at]}`;
  };
  const count = (v) => v >= 1e6 ? `${(v / 1e6).toFixed(1)} M` : v >= 1e5 ? `${(v / 1e3).toFixed(0)} k`
    : v >= 10 || v === 0 ? Math.round(v).toLocaleString("en") : v.toFixed(1);
  const shown = {
    "per-second": (v) => `${count(v)}/s`,
    "ms": (v) => v <= 0 ? "–" : v < 1 ? `${(v * 1000).toFixed(0)} µs` : v < 10 ? `${v.toFixed(1)} ms` : `${v.toFixed(0)} ms`,
    "bytes": size,
    "bytes-per-second": (v) => `${size(v)}/s`,
    "percent": (v) => `${v.toFixed(1)} %`,
  };
  const axis = { "ms": (v) => v < 1 && v > 0 ? `${v * 1000}µs` : `${v}ms`, "percent": (v) => `${v}%`, "bytes": size, "bytes-per-second": size, "per-second": count };

  const nice = (v) => {
    if (!(v > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(v));
    return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= v * 1.02) ?? v;
  };
  // Hours and minutes of UTC; with seconds or days where they tell more.
  const when = (ts, range) => {
    const iso = new Date(ts * 1000).toISOString();
    return range === "7d" ? `${iso.slice(5, 10)} ${iso.slice(11, 16)}` : iso.slice(11, 16) + (ts % 60 ? iso.slice(16, 19) : "");
  };

  const fetchSeries = (figure) => fetch(`/api/series?names=${encodeURIComponent(figure.dataset.series)}&range=${figure.dataset.range}`)
    .then((answer) => answer.json());
  const stack = (series) => {
    const out = [];
    series.forEach((values, at) => out.push(values.map((v, i) => (v ?? 0) + (at ? out[at - 1][i] : 0))));
    return out;
  };

  function start(figure) {
    const plot = figure.querySelector(".plot");
    if (!plot || !window.uPlot) return;
    const labels = figure.dataset.labels.split(","), unit = figure.dataset.unit, stacked = figure.dataset.stacked;
    fetchSeries(figure).then((data) => {
      if (data.times.length < 2) return;
      figure.plot?.destroy();
      const heights = stacked ? stack(data.series) : data.series;
      const quiet = colour("--quiet"), line = colour("--line");
      const series = labels.map((label, at) => ({
        label, stroke: colour(`--s${at}`), width: 1.5, points: { show: false },
        fill: stacked ? colour(`--s${at}`).replace(/^rgb\((.*)\)$/, "rgba($1, .22)") : undefined,
        value: (u, v, s, i) => i === null || i === undefined ? "" : shown[unit](u.raw[s - 1][i] ?? 0),
      }));
      const font = "11px system-ui, sans-serif";
      figure.plot = new uPlot({
        width: plot.clientWidth, height: 138, legend: { show: false },
        bands: stacked ? labels.slice(1).map((_, at) => ({ series: [at + 2, at + 1] })) : undefined,
        cursor: { sync: { key: "time" }, y: false, points: { size: 6 } },
        scales: { y: { range: (u, lo, hi) => [0, unit === "percent" ? 100 : nice(hi)] } },
        axes: [
          { stroke: quiet, font, size: 22, gap: 2, space: 76, values: (u, all, i, space, step) => all.map((ts) => when(ts, figure.dataset.range)), grid: { show: false }, ticks: { stroke: line, size: 3 } },
          { stroke: quiet, font, size: 58, gap: 3, splits: (u, a, lo, hi) => [0, hi / 2, hi], values: (u, all) => all.map((v) => axis[unit](+v.toPrecision(3))), grid: { stroke: line, width: 1, dash: [2, 4] }, ticks: { show: false } },
        ],
        tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"),
        series: [{}, ...series],
        hooks: {
          setCursor: [(u) => say(figure, u)],
          draw: [(u) => marks(figure, u)],
        },
      }, [data.times, ...heights], plot);
      figure.plot.raw = data.series;
      plot.classList.add("alive");
    }).catch(() => {});
  }
  // The values below the cursor stand where the latest ones do.
  function say(figure, u) {
    const at = u.cursor.idx;
    figure.querySelectorAll(".key b").forEach((b, s) => {
      const values = u.raw?.[s];
      if (!values) return;
      const v = values[at ?? values.length - 1];
      b.textContent = v === null || v === undefined ? "–" : shown[figure.dataset.unit](v);
    });
  }
  function marks(figure, u) {
    figure.querySelectorAll("line.event").forEach((mark) => {
      const from = u.data[0][0], to = u.data[0][u.data[0].length - 1];
      const when = from + (mark.x1.baseVal.value / 600) * (to - from);
      const x = u.valToPos(when, "x", true);
      u.ctx.save();
      u.ctx.strokeStyle = getComputedStyle(mark).stroke;
      u.ctx.setLineDash([4, 4]);
      u.ctx.beginPath(); u.ctx.moveTo(x, u.bbox.top); u.ctx.lineTo(x, u.bbox.top + u.bbox.height); u.ctx.stroke();
      u.ctx.restore();
    });
  }
  const figures = [...document.querySelectorAll("figure.chart")];
  figures.forEach(start);
  setInterval(() => {
    if (document.hidden) return;
    figures.forEach((figure) => {
      const u = figure.plot;
      if (!u) { start(figure); return; }
      // Somebody who has zoomed in looks at something.
      if (u.scales.x.min > u.data[0][0] || u.scales.x.max < u.data[0][u.data[0].length - 1]) return;
      fetchSeries(figure).then((data) => {
        u.raw = data.series;
        u.setData([data.times, ...(figure.dataset.stacked ? stack(data.series) : data.series)]);
        if (u.cursor.idx === null || u.cursor.idx === undefined) say(figure, u);
      }).catch(() => {});
    });
  }, 5000);
  addEventListener("resize", () => figures.forEach((figure) => {
    const plot = figure.querySelector(".plot");
    if (figure.plot && plot) figure.plot.setSize({ width: plot.clientWidth, height: 138 });
  }));

  // The heat map: every bucket on a canvas, with a cursor for mouse and keys.
  const SHADES = ["#14101f", "#3b2f63", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#95d840", "#fde725"]
    .map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  document.querySelectorAll("figure.keys").forEach((figure) => {
    const plot = figure.querySelector(".plot"), out = figure.querySelector("output");
    fetch(figure.dataset.heat).then((answer) => answer.json()).then((map) => {
      if (map.error) return;
      const columns = map.counts.length, rows = map.bounds.length + 1;
      const most = Math.max(1, ...map.counts.map((column) => Math.max(...column)));
      const canvas = document.createElement("canvas");
      canvas.width = columns; canvas.height = rows;
      canvas.setAttribute("aria-hidden", "true");
      const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
      for (let x = 0; x < columns; x += 1) {
        for (let y = 0; y < rows; y += 1) {
          const heat = Math.log1p(map.counts[x][y]) / Math.log1p(most) * 9;
          const low = SHADES[Math.floor(heat)], high = SHADES[Math.min(9, Math.floor(heat) + 1)], part = heat % 1;
          const at = ((rows - 1 - y) * columns + x) * 4;
          for (let c = 0; c < 3; c += 1) image.data[at + c] = low[c] + (high[c] - low[c]) * part;
          image.data[at + 3] = 255;
        }
      }
      context.putImageData(image, 0, 0);
      plot.querySelector("svg").replaceWith(canvas);
      let x = columns - 1, y = Math.floor(rows / 2);
      const tell = () => {
        const key = y === 0 ? "the start" : map.bounds[y - 1];
        const time = new Date(map.times[x] * 1000).toISOString().slice(11, 19);
        out.textContent = `${key} · ${time} UTC · ${count(map.counts[x][y] / map.stepSeconds)} rows/s`;
      };
      canvas.addEventListener("mousemove", (event) => {
        const box = canvas.getBoundingClientRect();
        x = Math.min(columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * columns)));
        y = Math.min(rows - 1, Math.max(0, rows - 1 - Math.floor((event.clientY - box.top) / box.height * rows)));
        tell();
      });
      canvas.addEventListener("click", () => navigator.clipboard?.writeText(y === 0 ? "" : map.bounds[y - 1]));
      figure.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (!step) return;
        event.preventDefault();
        x = Math.min(columns - 1, Math.max(0, x + step[0]));
        y = Math.min(rows - 1, Math.max(0, y + step[1]));
        tell();
      });
    }).catch(() => {});
  });
})();
