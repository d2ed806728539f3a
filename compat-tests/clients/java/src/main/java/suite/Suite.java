package suite;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs the checks of nacos-client 1.4.8 against a server, all at once, and prints a line for each.
 *
 * <p>Place: started by {@code ../run} and {@code ../prove}. {@code *Checks} hold the checks, {@link World} the SDK's
 * side, {@link Other} the client that they are measured with.
 *
 * <pre>
 * suite.Suite HOST:PORT [--only NAME,NAME]
 * suite.Suite --names
 * suite.Suite HOST:PORT --child SERVICE IP PORT METADATA   (what the killed-client checks kill)
 * </pre>
 *
 * Exit code: 0 every check passed, 1 one failed, 2 the suite couldn't run.
 */
public final class Suite {
    /** One check that hangs must not hide the others. */
    private static final long CHECK_LIMIT_S = 60;

    interface Check {
        void run(World world) throws Exception;
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.putAll(Checks.CHECKS);
        CHECKS.putAll(PushChecks.CHECKS);
        CHECKS.putAll(AliveChecks.CHECKS);
    }

    private static final Map<String, String> SKIPPED = Map.of("detail", "the SDK has no such call");

    private Suite() {}

    public static void main(String[] args) throws Exception {
        // The SDK's cache and log lie under the home folder, and pushes are sent to the address it finds for itself.
        System.setProperty("user.home", Files.createTempDirectory("nacos-java-").toString());
        System.setProperty("com.alibaba.nacos.client.naming.local.ip", Other.IP);
        int code;
        try {
            code = suite(args);
        } catch (Exception fault) {
            code = cannotRun(fault.toString());
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // the SDK's threads and exit hooks would take seconds to end
    }

    private static int cannotRun(String why) {
        System.err.println("couldn't run: " + why);
        return 2;
    }

    private static int suite(String[] args) throws Exception {
        if (args.length == 1 && args[0].equals("--names")) {
            CHECKS.keySet().forEach(Suite::say);
            return 0;
        }
        if (args.length == 0 || args[0].startsWith("--")) {
            return cannotRun("HOST:PORT is missing");
        }
        List<String> rest = List.of(args).subList(1, args.length);
        if (rest.size() == 5 && rest.get(0).equals("--child")) {
            return child(new World(args[0]), rest.subList(1, 5));
        }
        List<String> names = new ArrayList<>(CHECKS.keySet());
        if (rest.size() == 2 && rest.get(0).equals("--only")) {
            names = List.of(rest.get(1).split(","));
            if (!CHECKS.keySet().containsAll(names)) {
                return cannotRun("one of these checks does not exist: " + names);
            }
        } else if (!rest.isEmpty()) {
            return cannotRun("unknown arguments " + rest);
        } else {
            SKIPPED.forEach((name, why) -> say("skip " + name + ": " + why));
        }
        new Other(args[0]).waitForServer();
        return runAll(new World(args[0]), names);
    }

    private static int runAll(World world, List<String> names) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(names.size());
        Map<String, Future<Boolean>> results = new LinkedHashMap<>();
        names.forEach(name -> results.put(name, threads.submit(() -> runOne(world, name))));
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(CHECK_LIMIT_S);
        boolean passed = true;
        for (Map.Entry<String, Future<Boolean>> result : results.entrySet()) {
            try {
                passed &= result.getValue().get(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (TimeoutException late) {
                say("FAIL " + result.getKey() + ": wanted an end within " + CHECK_LIMIT_S + " s, it still runs");
                passed = false;
            } catch (ExecutionException fault) {
                throw new IllegalStateException("a check's fault is reported where it runs", fault);
            }
        }
        world.cleanUp();
        return passed ? 0 : 1;
    }

    private static boolean runOne(World world, String name) {
        try {
            CHECKS.get(name).run(world);
            say("ok " + name);
            return true;
        } catch (Wrong fault) {
            say("FAIL " + name + ": " + fault.getMessage());
        } catch (Throwable fault) {
            say("FAIL " + name + ": wanted no error, came " + fault + " at " + fault.getStackTrace()[0]);
        }
        return false;
    }

    private static int child(World world, List<String> args) throws Exception {
        Map<String, String> metadata = new ObjectMapper().readValue(args.get(3), new TypeReference<>() {});
        world.register(args.get(0), World.instance(args.get(1), Integer.parseInt(args.get(2)), metadata));
        say("registered");
        System.in.transferTo(OutputStream.nullOutputStream()); // until killed, or until the parent has gone
        return 0;
    }

    static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }
}
