// Seconds of work: they count while the page is seen and somebody does something.

const IDLE = 60_000;

let seconds = 0;
let isHeld = false;
let lastSign = performance.now();

for (const sign of ["keydown", "pointerdown", "pointermove", "scroll", "wheel"]) {
  document.addEventListener(sign, () => (lastSign = performance.now()), { passive: true, capture: true });
}
setInterval(() => {
  if (!isHeld && document.visibilityState === "visible" && isActive()) seconds += 0.25;
}, 250);

export const isActive = (within = IDLE) => performance.now() - lastSign < within;
export const worked = () => Math.round(seconds * 100) / 100;
export const start = (from) => (seconds = from);
/** Whether the clock stands still: a dialog or a veil covers the item. */
export const hold = (held) => (isHeld = held);
