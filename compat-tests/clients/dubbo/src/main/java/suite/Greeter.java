package suite;

/** The interface that is offered and called. */
public interface Greeter {
    String greet(String name);
}
