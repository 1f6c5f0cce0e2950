throw "no such order";
