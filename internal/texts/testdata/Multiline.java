class Multiline {
    public static void main(String[] args) throws Exception {
        try (AutoCloseable c = () -> { throw new Exception("close failed", new Error("deep")); }) {
            throw new Exception("the server said:\n\n550 no such user");
        }
    }
}
