require("assert").strictEqual(1, 2);
