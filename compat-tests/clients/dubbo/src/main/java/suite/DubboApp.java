package suite;

import java.io.IOException;
import java.net.BindException;
import java.net.ServerSocket;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/** An application as a user of Dubbo writes one: a provider, or a consumer. Dubbo allows one for each process. */
public final class DubboApp {
    static final String VERSION = "1.0.0";

    private static final int CALL_LIMIT_MS = 10_000;
    /** What makes Dubbo use the registry for its configuration, too, as it does by default. */
    private static final String WITH_CONFIGURATION = "with-configuration";

    private DubboApp() {}

    /** DubboApp HOST:PORT GROUP [NAME=VALUE...]: a provider in a process of its own, with these parameters. */
    public static void main(String[] args) throws Exception {
        Script.ownHome();
        Map<String, String> parameters = new HashMap<>();
        Arrays.stream(args).skip(2).map(pair -> pair.split("=", 2)).forEach(pair -> parameters.put(pair[0], pair[1]));
        Child.serve(() -> provide(args[0], args[1], parameters), () -> DubboBootstrap.getInstance().stop());
    }

    /** Has Dubbo configure its registry as well: by default it keeps settings and descriptions there. */
    static String withConfiguration() {
        return WITH_CONFIGURATION + "=true";
    }

    private static DubboBootstrap bootstrap(String server, String name, boolean withConfiguration) {
        ApplicationConfig application = new ApplicationConfig(name);
        application.setQosEnable(false);
        RegistryConfig registry = new RegistryConfig("nacos://" + server);
        if (!withConfiguration) {
            registry.setUseAsConfigCenter(false);
            registry.setUseAsMetadataCenter(false);
        }
        return DubboBootstrap.getInstance().application(application).registry(registry);
    }

    private static int provide(String server, String group, Map<String, String> parameters) throws Exception {
        boolean withConfiguration = parameters.remove(WITH_CONFIGURATION) != null;
        int port = freePort();
        ServiceConfig<Greeter> service = new ServiceConfig<>();
        service.setInterface(Greeter.class);
        service.setRef(name -> "hello " + name + " from " + port);
        service.setVersion(VERSION);
        service.setGroup(group);
        service.setParameters(parameters);
        ProtocolConfig protocol = new ProtocolConfig("dubbo", port);
        protocol.setHost(Other.IP);
        bootstrap(server, group, withConfiguration).protocol(protocol).service(service).start();
        return port;
    }

    /**
     * Below the ports that systems give to connections, one of which could have it before Dubbo listens; free at every
     * address, since Dubbo listens at all of them.
     */
    private static int freePort() throws IOException {
        for (int left = 100; ; left--) {
            int port = ThreadLocalRandom.current().nextInt(20_000, 30_000);
            try (ServerSocket socket = new ServerSocket(port)) {
                return socket.getLocalPort();
            } catch (BindException taken) {
                if (left == 0) {
                    throw taken;
                }
            }
        }
    }

    static Greeter consume(String server, String group) {
        ReferenceConfig<Greeter> reference = new ReferenceConfig<>();
        reference.setInterface(Greeter.class);
        reference.setVersion(VERSION);
        reference.setGroup(group);
        reference.setTimeout(CALL_LIMIT_MS);
        reference.setCheck(false); // it may start before its providers
        // Past this Dubbo would leave a provider alone for a minute.
        reference.setParameters(Map.of("connect.timeout", Integer.toString(CALL_LIMIT_MS)));
        bootstrap(server, group + "-consumer", false).reference(reference).start();
        return reference.get();
    }
}
