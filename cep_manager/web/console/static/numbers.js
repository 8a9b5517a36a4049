// Numbers as people read them.

/** 950, 12.3 k, 4.1 M: three digits and a unit. */
export function short(number) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e4, " k"]]) {
    if (number >= size) {
      const divided = number / (unit === " k" ? 1e3 : size);
      return `${divided >= 100 ? divided.toFixed(0) : divided.toFixed(1)}${unit}`;
    }
  }
  return number < 10 && !Number.isInteger(number) ? number.toFixed(1) : Math.round(number).toLocaleString("en").replaceAll(",", "\u202f");
}
