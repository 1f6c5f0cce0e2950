class Uncaught {
    static void send(String to) {
        throw new IllegalStateException("no route to " + to);
    }

    public static void main(String[] args) {
        System.out.println("sending");
        send("example.org");
    }
}
