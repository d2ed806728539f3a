package suite;

import java.util.Objects;
import java.util.concurrent.Callable;

/** What a check wanted isn't what came. */
final class Wrong extends Exception {
    Wrong(Object wanted, Object came) {
        super("wanted " + wanted + ", came " + came);
    }

    static void expect(Object wanted, Object came) throws Wrong {
        if (!Objects.equals(wanted, came)) {
            throw new Wrong(wanted, came);
        }
    }

    /** Looks ten times a second until {@code look} gives {@code wanted}; past the limit that is a fault. */
    static <T> void within(double limitS, T wanted, Callable<T> look) throws Exception {
        long end = System.nanoTime() + (long) (limitS * 1e9);
        while (true) {
            T came = look.call();
            if (Objects.equals(wanted, came)) {
                return;
            }
            if (System.nanoTime() > end) {
                throw new Wrong(wanted + " within " + limitS + " s", came);
            }
            Thread.sleep(100);
        }
    }
}
