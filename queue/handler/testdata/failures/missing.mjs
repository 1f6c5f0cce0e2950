import "./nowhere.js";
