"use strict";
(() => {
	const form = document.querySelector("form");
	const status = document.querySelector(".status");
	const bar = document.querySelector(".bar");
	const again = document.querySelector("button");
	const strokes = document.querySelectorAll(".stroke");

	// Where the address has a fragment, it is still there after the redirect.
	form.action += location.hash;
	again.onclick = () => location.reload();
	addEventListener("pageshow", (event) => event.persisted && location.reload());

	const say = (text) => { if (status.textContent !== text) status.textContent = text; };
	const stop = (text) => { say(text); again.hidden = false; };

	const show = (part) => {
		strokes.forEach((stroke, i) => stroke.classList.toggle("drawn", part > i / strokes.length));
		if (!bar) return;
		bar.firstChild.style.width = part * 100 + "%";
		bar.setAttribute("aria-valuenow", Math.round(part * 100));
	};

	// When this browser has solved a puzzle in the last minute.
	const recentlySolved = () => JSON.parse(sessionStorage.rateLimit || "[]").filter((at) => Date.now() - at < 60e3);

	const leave = () => {
		try { form.elements.again.value = recentlySolved().length || ""; } catch { /* no storage */ }
		try { sessionStorage.rateLimit = JSON.stringify([...recentlySolved(), Date.now()]); } catch { /* no storage */ }
		show(1);
		say(form.dataset.done);
		form.submit();
	};

	// Whom a session doesn't help would come back here for ever.
	const inCircles = () => {
		try { return recentlySolved().length >= 3; } catch { return false; }
	};

	// Runs in workers as well: uses nothing from outside.
	const makeSolver = () => {
		// The first 32 bits of the fractional parts of the square roots and cube
		// roots of the first primes: FIPS 180-4, sections 4.2.2 and 5.3.3.
		const H = [], K = [];
		for (let n = 2; K.length < 64; n++) {
			let prime = true;
			for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
			if (!prime) continue;
			const bits = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
			if (H.length < 8) H.push(bits(Math.sqrt(n)));
			K.push(bits(Math.cbrt(n)));
		}

		const W = new Int32Array(64);
		// Hashes the block in the first 16 words of W onto the state: FIPS 180-4,
		// section 6.2.2.
		const compress = (state, out) => {
			for (let t = 16; t < 64; t++) {
				const x = W[t - 15], y = W[t - 2];
				const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3;
				const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10;
				W[t] = W[t - 16] + s0 + W[t - 7] + s1;
			}
			let a = state[0], b = state[1], c = state[2], d = state[3];
			let e = state[4], f = state[5], g = state[6], h = state[7];
			for (let t = 0; t < 64; t++) {
				const S1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7);
				const S0 = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10);
				const t1 = h + S1 + (e & f ^ ~e & g) + K[t] + W[t] | 0;
				const t2 = S0 + (a & b ^ a & c ^ b & c) | 0;
				h = g; g = f; f = e; e = d + t1 | 0;
				d = c; c = b; b = a; a = t1 + t2 | 0;
			}
			out[0] = state[0] + a; out[1] = state[1] + b; out[2] = state[2] + c; out[3] = state[3] + d;
			out[4] = state[4] + e; out[5] = state[5] + f; out[6] = state[6] + g; out[7] = state[7] + h;
		};

		// The puzzle has 80 characters, so all but the last 16 are hashed once.
		const start = new Int32Array(H), first = new Int32Array(8), out = new Int32Array(8);
		const word = (text, i) =>
			text.charCodeAt(i) << 24 | text.charCodeAt(i + 1) << 16 | text.charCodeAt(i + 2) << 8 | text.charCodeAt(i + 3);

		// Tries the numbers from high * 2^32 + low on, and returns the low halves of
		// those that earn enough zeros.
		return (text, zeros, high, low, tries) => {
			const found = [];
			for (let i = 0; i < 16; i++) W[i] = word(text, 4 * i);
			compress(start, first);
			for (let i = 0; i < 4; i++) W[i] = word(text, 64 + 4 * i);
			W[4] = high;
			W[6] = 0x80000000;
			W.fill(0, 7, 15);
			W[15] = 88 * 8;
			for (let n = low; n < low + tries; n++) {
				W[5] = n;
				compress(first, out);
				if (out[0] >>> 32 - zeros === 0) found.push(n);
			}
			return found;
		};
	};

	const puzzle = form.dataset.puzzle;
	const numbers = Number(form.dataset.numbers);
	const zeros = Number(form.dataset.zeros);
	const batch = 1 << 13;
	const found = [];
	let tried = 0, solved = false, began;

	const hex = (n) => (n >>> 0).toString(16).padStart(8, "0");

	// Notes what was found in a batch, and leaves once that is enough.
	const note = (high, lows) => {
		if (solved) return;
		found.push(...lows.map((low) => hex(high) + hex(low)));
		tried += batch;
		show(Math.min(0.98, tried / (numbers * 2 ** zeros)));
		if (performance.now() - began > 8e3) say(form.dataset.slow);
		solved = found.length >= numbers;
		if (!solved) return;
		form.elements.solution.value = found.sort().slice(0, numbers).join("");
		leave();
	};

	// Without workers: a batch at a time, so that the page stays alive.
	const solveHere = () => {
		const attempt = makeSolver();
		const step = (low) => {
			note(0xffff, attempt(puzzle, zeros, 0xffff, low, batch));
			if (!solved) setTimeout(step, 0, low + batch);
		};
		step(0);
	};

	const solveInWorkers = () => {
		const source = `"use strict";
			const attempt = (${makeSolver})();
			onmessage = ({ data: [puzzle, zeros, high, batch] }) => {
				for (let low = 0; low < 2 ** 32; low += batch) postMessage(attempt(puzzle, zeros, high, low, batch));
			};`;
		const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
		const count = Math.max(1, Math.min(4, (navigator.hardwareConcurrency || 2) - 1));
		const workers = [];
		let failed = false;
		for (let high = 0; high < count; high++) {
			const worker = new Worker(url);
			workers.push(worker);
			worker.onmessage = ({ data: lows }) => {
				note(high, lows);
				if (solved) workers.forEach((other) => other.terminate());
			};
			worker.onerror = () => {
				workers.forEach((other) => other.terminate());
				if (!failed) solveHere();
				failed = true;
			};
			worker.postMessage([puzzle, zeros, high, batch]);
		}
	};

	const begin = () => {
		began = performance.now();
		bar.hidden = false;
		say(form.dataset.solving);
		try {
			solveInWorkers();
		} catch {
			solveHere();
		}
	};

	if (!navigator.cookieEnabled) stop(form.dataset.cookies);
	else if (inCircles()) stop(form.dataset.circles);
	else if (puzzle) begin();
	else {
		window.tallyDone = leave; // what the widget calls
		const unloaded = (event) => event.target.src && stop(form.dataset.unloaded);
		addEventListener("error", unloaded, true);
	}
})();
