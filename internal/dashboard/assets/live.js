// What pages add where scripts run: times in the reader's time zone, plots that can be read
// with the pointer, and what happens at the moment. Everything from outside becomes text
// nodes: no markup is made here.

const whole = new Intl.NumberFormat("en");
const rounded = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

const find = (selector, inside = document) => inside.querySelector(selector);
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");

function element(name, className, text) {
	const made = document.createElement(name);
	if (className) made.className = className;
	if (text !== undefined) made.textContent = text;
	return made;
}

function localTimes() {
	for (const time of all("time[datetime]")) {
		const at = new Date(time.dateTime);
		if (!isNaN(at)) time.textContent = (time.closest("[data-feed]") ? clock : day).format(at);
	}
	for (const zone of all("[data-zone]")) zone.textContent = "those of " + Intl.DateTimeFormat().resolvedOptions().timeZone;
}

// Steps of an axis that counts: 1, 2, 5, 10 and so on.
const wholeSteps = [...Array(13).keys()].flatMap((power) => [1, 2, 5].map((factor) => factor * 10 ** power));

// A short number for an axis: 1.2 k.
function short(n) {
	for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
		if (n >= size) return rounded.format(n / size) + unit;
	}
	return rounded.format(n);
}

// A plot in a figure, drawn anew when the colours change.
class Plot {
	constructor(figure) {
		this.figure = figure;
		this.per = figure.dataset.per;
		this.data = JSON.parse(figure.dataset.plot);
		this.marks = JSON.parse(figure.dataset.marks);
		this.whole = element("button", "whole", "Whole time");
		this.whole.type = "button";
		this.whole.hidden = true;
		this.whole.addEventListener("click", () => this.zoom(0));
		this.place = find(".canvas", figure);
		this.readout = find("[data-readout]", figure);
		this.readout.after(this.whole);
		this.place.addEventListener("keydown", (event) => this.press(event));
		this.draw();
		dark.addEventListener("change", () => this.draw());
		new ResizeObserver(() => this.resize()).observe(this.place);
	}

	size() {
		return { width: this.place.clientWidth, height: this.place.clientHeight };
	}

	resize() {
		const { width, height } = this.size();
		if (this.chart && width > 0 && (width !== this.chart.width || height !== this.chart.height)) this.chart.setSize({ width, height });
	}

	draw() {
		if (this.data[0].length < 2) return;
		this.chart?.destroy();
		this.place.replaceChildren();
		const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px " + getComputedStyle(document.body).fontFamily };
		const series = (label, name) => ({ label, stroke: color(name), fill: color(name) + "1f", width: 2, points: { show: false } });
		this.chart = new uPlot({
			...this.size(),
			padding: [8, 8, 0, 0],
			legend: { show: false },
			cursor: { y: false, drag: { x: true, y: false } },
			scales: { y: { range: (_, __, top) => [0, Math.max(top * 1.1, 1)] } },
			axes: [
				{ ...axis, size: 30, grid: { show: false }, space: 70, values: [[86400 * 28, "{MMM} {YYYY}", null, null, null, null, null, null, 1], [86400, "{D} {MMM}", null, null, null, null, null, null, 1], [3600, "{HH}:{mm}", "{D} {MMM}", null, "{D} {MMM}", null, null, null, 0], [60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
				{ ...axis, size: 52, space: 44, incrs: wholeSteps, values: (_, ticks) => ticks.map(short) },
			],
			series: [{}, series("let in", "--ok"), series("refused", "--no")],
			hooks: {
				setCursor: [(chart) => this.read(chart.cursor.idx)],
				setScale: [(chart, axis) => { if (axis === "x") this.whole.hidden = !this.zoomed(chart); }],
				drawAxes: [(chart) => this.mark(chart)],
			},
		}, this.data, this.place);
		const canvas = find("canvas", this.place);
		canvas.setAttribute("role", "img");
		canvas.setAttribute("aria-label", `Requests per ${this.per}, let in and refused. Plus and minus zoom, arrows move, 0 shows the whole time.`);
		canvas.tabIndex = 0;
	}

	// mark draws a line where something was done.
	mark(chart) {
		const { left, top, width, height } = chart.bbox;
		chart.ctx.save();
		chart.ctx.strokeStyle = color("--muted");
		chart.ctx.lineWidth = devicePixelRatio;
		chart.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
		for (const [time] of this.marks) {
			const x = Math.round(chart.valToPos(time, "x", true));
			if (x < left || x > left + width) continue;
			chart.ctx.beginPath();
			chart.ctx.moveTo(x, top);
			chart.ctx.lineTo(x, top + height);
			chart.ctx.stroke();
		}
		chart.ctx.restore();
	}

	zoomed(chart = this.chart) {
		const [times] = this.data, { min, max } = chart.scales.x;
		return min > times[0] || max < times.at(-1);
	}

	// zoom shows a part of the time, by a factor, moved by a part of what is shown; a factor of 0 shows all of it.
	zoom(factor, move = 0) {
		const [times] = this.data, { min, max } = this.chart.scales.x;
		const first = times[0], last = times.at(-1), span = Math.min(Math.max((max - min) * factor, (last - first) / times.length * 4), last - first);
		const begin = factor ? Math.min(Math.max((min + max - span) / 2 + move * span, first), last - span) : first;
		this.chart.setScale("x", { min: begin, max: factor ? begin + span : last });
	}

	press(event) {
		const zoom = { "+": [0.5], "=": [0.5], "-": [2], 0: [0], ArrowLeft: [1, -0.25], ArrowRight: [1, 0.25] }[event.key];
		if (!zoom || event.ctrlKey || event.metaKey || event.altKey) return;
		event.preventDefault();
		this.zoom(...zoom);
	}

	// read says what was at a point, or what the plot shows.
	read(at) {
		if (at === null || at === undefined) {
			this.readout.textContent = "";
			return;
		}
		const [times, allowed, refused] = this.data;
		const time = this.per === "second" ? clock : day;
		const until = times[at + 1] ?? Infinity;
		const done = this.marks.filter(([when]) => when >= times[at] && when < until).map(([, text]) => text);
		this.readout.textContent = [`${time.format(new Date(times[at] * 1000))}: ${short(allowed[at])} let in, ${short(refused[at])} refused`, ...done].join(" · ");
	}

	// add appends a point and forgets what is older than a quarter of an hour.
	add(time, allowed, refused) {
		const last = this.data[0].at(-1);
		if (last !== undefined && time <= last) return;
		[time, allowed, refused].forEach((value, i) => this.data[i].push(value));
		while (this.data[0][0] < time - 900) this.data.forEach((column) => column.shift());
		if (this.chart) {
			const { min, max } = this.chart.scales.x, zoomed = !this.whole.hidden;
			this.chart.setData(this.data, !zoomed);
			if (zoomed) this.chart.setScale("x", { min, max });
		}
		else this.draw();
		this.figure.dataset.last = time;
	}
}

// What happens at the moment, on the first page.
class Live {
	constructor(plot) {
		this.plot = plot;
		this.state = find("[data-state]");
		this.feed = find("[data-feed]");
		this.rows = new Map(all("[data-zone-row]").map((row) => [row.dataset.zoneRow, row]));
		this.previous = null;
		this.say("Connecting …", false);
		this.open();
		document.addEventListener("visibilitychange", () => this.pause());
	}

	// pause ends the stream while nobody sees the page.
	pause() {
		this.source.close();
		this.previous = null;
		if (!document.hidden) this.open();
	}

	open() {
		this.source = new EventSource("events");
		this.source.onmessage = (message) => this.receive(JSON.parse(message.data));
		this.source.onerror = () => {
			this.previous = null;
			this.say(this.source.readyState === EventSource.CLOSED ? "Not live: reload the page to try it again" : "Connecting again …", false);
		};
	}

	say(text, live) {
		if (this.state.textContent === text) return;
		this.state.textContent = text;
		this.state.classList.toggle("live", live);
	}

	receive(event) {
		this.say("Live", true);
		if (event.totals) this.count(event.totals);
		if (event.refused) this.show(event.refused);
	}

	count(totals) {
		const at = Date.parse(totals.at) / 1000;
		const before = this.previous;
		this.previous = { ...totals, at };
		for (const [name, counts] of Object.entries(totals.zones ?? {})) this.countZone(this.rows.get(name), counts);
		const seconds = before ? at - before.at : 0;
		if (seconds <= 0 || totals.allowed < before.allowed) return;
		const rate = (name, of = (sum) => sum) => ((of(totals)?.[name] ?? 0) - (of(before)?.[name] ?? 0)) / seconds;
		const zone = this.plot.figure.dataset.of;
		const plotted = (sum) => (zone === undefined ? sum : sum.zones?.[zone]);
		this.plot.add(Math.round(at), rate("allowed", plotted), rate("refused", plotted));
		for (const place of all("[data-rate]")) {
			place.replaceChildren(short(rate(place.dataset.rate)), element("small", "", "per second"));
		}
		for (const place of all("[data-since]")) place.textContent = whole.format(totals[place.dataset.since]) + " since the start";
		for (const place of all("[data-total=share]")) place.textContent = share(totals);
	}

	countZone(row, counts) {
		if (!row) return;
		for (const cell of all("[data-count]", row)) {
			const name = cell.dataset.count;
			cell.textContent = name === "share" ? share(counts) : whole.format(counts[name]);
		}
		const sum = counts.allowed + counts.refused;
		find(".bar .part", row)?.setAttribute("width", sum ? (100 * counts.refused) / sum : 0);
	}

	// show puts a refusal first in the list, with those of its client by the same limit.
	show(refused) {
		if ((this.feed.dataset.of ?? refused.zone) !== refused.zone) return;
		const what = [refused.zone, refused.limit, refused.key, refused.tag ?? ""].join("\n");
		const before = [...this.feed.children].find((item) => item.dataset.what === what);
		const times = before ? Number(before.dataset.times) + 1 : 1;
		before?.remove();
		const item = element("li");
		Object.assign(item.dataset, { what, times });
		item.append(element("span", "name", refused.key));
		if (refused.tag) item.append(" ", element("code", "client", refused.tag));
		if (times > 1) item.append(element("span", "muted", ` × ${whole.format(times)}`));
		const about = [clock.format(new Date(refused.at)), refused.zone, reasons[refused.reason] ?? refused.reason ?? "", refused.path ?? ""];
		item.append(element("small", "", about.filter(Boolean).join(" · ")));
		this.feed.prepend(item);
		while (this.feed.children.length > 8) this.feed.lastChild.remove();
		find("[data-feed-empty]")?.remove();
	}
}

const reasons = { over_limit: "over the limit", blocked: "was blocked already", too_costly: "costs more than the limit", denied: "denied: its API key or tier" };

function share({ allowed, refused }) {
	const sum = allowed + refused;
	if (!sum || !refused) return "0 %";
	const part = (100 * refused) / sum;
	return (part < 0.1 ? "<0.1" : part < 10 ? part.toFixed(1) : part.toFixed(0)) + " %";
}

// Menus close with Escape, or when something outside their row is clicked.
function closeMenus() {
	const close = (clicked) => all("details.menu[open]").forEach((menu) => { if (!clicked || !(menu.closest("tr") ?? menu).contains(clicked)) menu.open = false; });
	addEventListener("click", (event) => close(event.target));
	addEventListener("keydown", (event) => {
		if (event.key !== "Escape") return;
		find("details.menu[open] summary")?.focus();
		close(null);
	});
}

localTimes();
closeMenus();
const plots = all("[data-plot]").map((figure) => new Plot(figure));
const live = plots.find((plot) => "live" in plot.figure.dataset);
if (live) new Live(live);
