require("net").connect(1, "127.0.0.1");
