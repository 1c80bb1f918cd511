"use strict";
(() => {
	const [when, now] = document.querySelectorAll(".when");
	const shown = when.querySelector("b");
	const again = document.querySelector(".again");
	const end = Date.now() + when.dataset.wait * 1e3;
	const words = (s) => {
		const h = Math.ceil(s / 3600);
		const [n, unit] = s <= 90 ? [s, "second"]
			: s <= 5400 ? [Math.ceil(s / 60), "minute"]
			: h === 24 || h > 48 ? [Math.ceil(h / 24), "day"]
			: [h, "hour"];
		return new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always" }).format(n, unit);
	};
	const tick = () => {
		const left = Math.ceil((end - Date.now()) / 1e3);
		if (left > 0) {
			if (window.Intl && Intl.RelativeTimeFormat) shown.textContent = words(left);
			return;
		}
		clearInterval(timer);
		when.hidden = true;
		now.textContent = now.dataset.now;
		again.hidden = false;
	};
	again.hidden = true;
	const timer = setInterval(tick, 1e3);
	tick();
})();
