package suite;

import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A provider in a process of its own: started, then left alone, stopped as its user would, or killed. */
final class Child {
    private static final long START_LIMIT_S = 120;
    private static final String READY = "ready ";

    private final Process process;
    private final FutureTask<String> firstLine;

    private Child(Process process) {
        this.process = process;
        firstLine = new FutureTask<>(process.inputReader()::readLine);
        Thread reader = new Thread(firstLine, "first line of " + process.pid());
        reader.setDaemon(true);
        reader.start();
    }

    /** Starts another JVM like this one, and doesn't wait for it. */
    static Child start(Class<?> main, List<String> args) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(args);
        return new Child(new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start());
    }

    /** What the child does: says at which port it serves, and ends cleanly when its parent closes the pipe or is gone. */
    static void serve(Callable<Integer> start, AutoCloseable end) throws Exception {
        try {
            System.out.println(READY + start.call());
        } catch (Exception fault) {
            Throwable root = fault;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            System.out.println(root.toString().replace('\n', ' '));
            System.out.flush();
            Runtime.getRuntime().halt(1);
        }
        System.out.flush();
        System.in.transferTo(OutputStream.nullOutputStream());
        end.close();
        Runtime.getRuntime().halt(0);
    }

    /** The port that it serves at, once it does. */
    int port() throws Exception {
        String line;
        try {
            line = firstLine.get(START_LIMIT_S, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            line = "nothing within " + START_LIMIT_S + " s";
        }
        if (line == null || !line.startsWith(READY)) {
            throw new Wrong("a provider that starts", line);
        }
        return Integer.parseInt(line.substring(READY.length()));
    }

    /** Begins a clean end, and doesn't wait for it: the frameworks take their time after they have deregistered. */
    void stop() throws Exception {
        process.outputWriter().close();
    }

    void kill() throws Exception {
        process.destroyForcibly().waitFor();
    }
}
