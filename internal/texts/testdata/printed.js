async function main() {
  await fetch("http://127.0.0.1:2/");
}
main().catch((e) => {
  console.error(e);
  process.exit(75);
});
