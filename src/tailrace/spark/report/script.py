"""The page's script: filters and sorts tables, and shows at once what is pointed at. The page is whole without it."""

from __future__ import annotations

from typing import Final

SCRIPT: Final = """
"use strict";
(() => {
  for (const box of document.querySelectorAll(".table")) {
    const body = box.querySelector("tbody");
    const rows = Array.from(body.rows);
    const controls = box.querySelector(".controls");
    if (controls) {
      const field = controls.querySelector("input");
      const buttons = Array.from(controls.querySelectorAll("button"));
      const count = controls.querySelector(".count");
      const texts = rows.map((row) => row.textContent.toLowerCase());
      const filter = () => {
        const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
        const pressed = buttons.filter((each) => each.ariaPressed === "true").map((each) => each.dataset.tone);
        let shown = 0;
        rows.forEach((row, at) => {
          const fits = words.every((word) => texts[at].includes(word)) &&
            (pressed.length === 0 || pressed.includes(row.dataset.tone));
          row.hidden = !fits;
          shown += fits ? 1 : 0;
        });
        count.textContent = shown === rows.length ? rows.length + " rows" : shown + " of " + rows.length + " rows";
      };
      field.addEventListener("input", filter);
      for (const button of buttons) {
        button.addEventListener("click", () => {
          button.ariaPressed = button.ariaPressed === "true" ? "false" : "true";
          filter();
        });
      }
      controls.hidden = false;
      filter();
    }
    const value = (row, at) => {
      const cell = row.cells[at];
      return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.toLowerCase();
    };
    const heads = Array.from(box.querySelectorAll("th"));
    heads.forEach((head, at) => {
      head.tabIndex = 0;
      head.classList.add("sortable");
      const sort = () => {
        const numeric = head.classList.contains("number");
        const up = head.ariaSort ? head.ariaSort !== "ascending" : !numeric;
        heads.forEach((each) => { each.ariaSort = null; });
        head.ariaSort = up ? "ascending" : "descending";
        const sign = up ? 1 : -1;
        const keyed = rows.map((row) => [value(row, at), row]);
        keyed.sort(([a], [b]) => typeof a === typeof b ? (a > b ? sign : a < b ? -sign : 0) :
          (typeof a === "number" ? -1 : 1));
        body.append(...keyed.map(([, row]) => row));
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  }
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const strip of document.querySelectorAll(".strip")) {
    const title = strip.querySelector("title");
    const words = title.textContent;
    strip.setAttribute("aria-label", words);
    title.remove();
    strip.addEventListener("pointermove", (event) => {
      tip.textContent = words;
      tip.hidden = false;
      const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
      tip.style.left = Math.max(8, Math.min(event.clientX + 14, room)) + "px";
      tip.style.top = (event.clientY + 18 + tip.offsetHeight > window.innerHeight ?
        event.clientY - tip.offsetHeight - 10 : event.clientY + 18) + "px";
    });
    strip.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
})();
"""
