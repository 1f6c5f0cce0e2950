Promise.reject("no such order");
