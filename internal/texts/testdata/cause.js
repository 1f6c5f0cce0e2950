async function store() {
  try {
    JSON.parse("{");
  } catch (e) {
    throw new Error("the order can't be stored", { cause: e });
  }
}
store();
