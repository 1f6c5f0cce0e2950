class Cause {
    static void connect() throws java.io.IOException {
        throw new java.io.IOException("the server said:\n550 no such user");
    }

    static void store() {
        try {
            connect();
        } catch (java.io.IOException e) {
            throw new IllegalStateException("the order can't be stored", e);
        }
    }

    public static void main(String[] args) {
        try {
            store();
        } catch (RuntimeException e) {
            throw new RuntimeException(e);
        }
    }
}
