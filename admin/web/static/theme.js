// Sets the colours before the first paint: light, dark, or as the system.
(function () {
  try {
    var theme = localStorage.getItem("drumbeat-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch (e) {
    /* storage is not allowed: as the system */
  }
})();
