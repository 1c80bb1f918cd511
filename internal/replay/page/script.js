"use strict"
for (const input of document.querySelectorAll("input[data-steps]")) {
	const steps = JSON.parse(input.dataset.steps), figure = input.closest("figure"), svg = figure.querySelector("svg")
	const show = () => {
		const {x, name, effect} = steps[input.value]
		for (const end of ["x1", "x2"]) svg.querySelector("line").setAttribute(end, x)
		for (const bar of svg.querySelectorAll("rect")) bar.classList.toggle("over", bar.x.baseVal.value + 9 > x)
		input.setAttribute("aria-valuetext", name)
		figure.querySelector("output").textContent = effect
	}
	const drag = (event) => {
		if (!event.buttons) return
		const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width
		const distances = steps.map((step) => Math.abs(step.x - x))
		input.value = distances.indexOf(Math.min(...distances))
		show()
	}
	svg.addEventListener("pointerdown", drag)
	svg.addEventListener("pointermove", drag)
	input.addEventListener("input", show)
	input.parentElement.hidden = false
	show()
}
