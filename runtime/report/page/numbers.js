// Numbers as people read them.
function fixed(value, digits) {
  return Number(value).toFixed(digits).replace("-", "\u2212");
}

function microseconds(us) {
  if (us === null || us === undefined || !(us > 0)) return "\u2013";
  if (us < 1000) return `${fixed(us, us < 10 ? 2 : 1)} \u00b5s`;
  if (us < 1e6) return `${fixed(us / 1e3, us < 1e4 ? 3 : 2)} ms`;
  return seconds(us / 1e6);
}

function seconds(s) {
  if (s < 60) return `${fixed(s, s < 10 ? 2 : 1)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.round(whole % 3600 / 60)} min`;
}

function count(value) {
  return Number(value || 0).toLocaleString("en").replaceAll(",", "\u202f");
}

function bytes(value) {
  if (!(value > 0)) return "\u2013";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= 1024 && at < units.length - 1; ++at) value /= 1024;
  return `${fixed(value, at && value < 100 ? 1 : 0)} ${units[at]}`;
}

function times(ratio) {
  return ratio > 0 ? `${fixed(ratio, 2)}\u00d7` : "\u2013";
}

function interval(s) {
  return s && s.ratio > 0 ? `${fixed(s.low, 2)}\u2013${fixed(s.high, 2)}` : "";
}

function error(value) {
  return value > 0 ? Number(value).toExponential(1) : "0";
}

function dollars(micro) {
  if (!(micro > 0)) return "$0";
  return "$" + fixed(micro / 1e6, micro < 1e6 ? 4 : 2);
}

function plural(n, one, many = one + "s") {
  return `${count(n)} ${n === 1 ? one : many}`;
}
