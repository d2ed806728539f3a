package suite;

import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs the checks of an application, one after the other on one stage (its processes), and prints a line for each.
 *
 * <p>Place: the `main` of `../spring` and `../dubbo` calls it; `../run` and `../prove` start those.
 *
 * <pre>
 * MAIN HOST:PORT [--only NAME,NAME]
 * MAIN --names
 * </pre>
 *
 * Exit code: 0 every check passed, 1 one failed, 2 the suite couldn't run.
 */
final class Script {
    /** One check that hangs must not hide the others; the first one waits until all has started. */
    private static final long CHECK_LIMIT_S = 180;

    interface Check<S> {
        void run(S stage) throws Exception;
    }

    interface Stage extends AutoCloseable {
        /** Ends the processes that are left and takes away what was left on the server. */
        @Override
        void close() throws Exception;
    }

    interface Opening<S> {
        S open(String server) throws Exception;
    }

    private Script() {}

    static <S extends Stage> void main(String[] args, Map<String, Check<S>> checks, Opening<S> opening) {
        int code;
        try {
            ownHome();
            code = script(args, checks, opening);
        } catch (Exception fault) {
            code = cannotRun(fault.toString());
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // the frameworks' exit hooks would take seconds to end
    }

    /** The SDK's cache and log lie under the home folder, and pushes are sent to the address it finds for itself. */
    static void ownHome() throws Exception {
        System.setProperty("user.home", Files.createTempDirectory("nacos-app-").toString());
        System.setProperty("com.alibaba.nacos.client.naming.local.ip", Other.IP);
    }

    private static int cannotRun(String why) {
        System.err.println("couldn't run: " + why);
        return 2;
    }

    private static <S extends Stage> int script(String[] args, Map<String, Check<S>> checks, Opening<S> opening)
            throws Exception {
        if (args.length == 1 && args[0].equals("--names")) {
            checks.keySet().forEach(Script::say);
            return 0;
        }
        if (args.length == 0 || args[0].startsWith("--")) {
            return cannotRun("HOST:PORT is missing");
        }
        List<String> only = List.copyOf(checks.keySet());
        if (args.length == 3 && args[1].equals("--only")) {
            only = List.of(args[2].split(","));
            if (!checks.keySet().containsAll(only)) {
                return cannotRun("one of these checks does not exist: " + only);
            }
        } else if (args.length != 1) {
            return cannotRun("unknown arguments " + List.of(args));
        }
        new Other(args[0]).waitForServer();
        boolean passed = true;
        try (S stage = opening.open(args[0])) {
            for (String name : checks.keySet()) {
                passed &= !only.contains(name) || runOne(name, checks.get(name), stage);
            }
        }
        return passed ? 0 : 1;
    }

    private static <S> boolean runOne(String name, Check<S> check, S stage) throws InterruptedException {
        FutureTask<Void> task = new FutureTask<>(() -> {
            check.run(stage);
            return null;
        });
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        try {
            task.get(CHECK_LIMIT_S, TimeUnit.SECONDS);
            say("ok " + name);
            return true;
        } catch (TimeoutException late) {
            say("FAIL " + name + ": wanted an end within " + CHECK_LIMIT_S + " s, it still runs");
        } catch (ExecutionException fault) {
            Throwable cause = fault.getCause();
            say("FAIL " + name + ": " + (cause instanceof Wrong ? cause.getMessage()
                    : "wanted no error, came " + cause + " at " + cause.getStackTrace()[0]));
        }
        return false;
    }

    static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }
}
