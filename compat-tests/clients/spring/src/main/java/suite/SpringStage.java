package suite;

import com.alibaba.nacos.api.naming.pojo.Instance;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.springframework.cloud.client.ServiceInstance;
import org.springframework.cloud.client.discovery.DiscoveryClient;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.web.client.RestTemplate;

/** Two providers in processes of their own, and a consumer in this one; started when first asked for. */
final class SpringStage implements Script.Stage {
    static final Map<String, String> METADATA = Map.of("zone", "a b", "note", "1&2+3%=/,");

    final Other other;
    final String provider;
    final String consumer;

    private final String server;
    private final List<Child> children = new ArrayList<>();
    private Child first;
    private Child second;
    private ConfigurableApplicationContext context;
    private Exception fault;

    SpringStage(String server) {
        this.server = server;
        other = new Other(server);
        String run = Long.toHexString(ProcessHandle.current().pid())
                + Long.toHexString(System.currentTimeMillis() & 0xFFFFFF);
        provider = "clients-spring-" + run + "-provider";
        consumer = "clients-spring-" + run + "-consumer";
    }

    synchronized void start() throws Exception {
        if (fault == null && context == null) {
            try {
                first = provider("--spring.cloud.nacos.discovery.weight=2.5",
                        "--spring.cloud.nacos.discovery.metadata.zone=" + METADATA.get("zone"),
                        "--spring.cloud.nacos.discovery.metadata.note=" + METADATA.get("note"));
                second = provider("--spring.cloud.nacos.discovery.cluster-name=west");
                context = SpringApp.start(server, consumer);
                first.port();
                second.port();
            } catch (Exception cannotStart) {
                fault = cannotStart;
            }
        }
        if (fault != null) {
            throw fault;
        }
    }

    private Child provider(String... properties) throws Exception {
        List<String> arguments = new ArrayList<>(List.of(server, provider));
        arguments.addAll(List.of(properties));
        Child child = Child.start(SpringApp.class, arguments);
        children.add(child);
        return child;
    }

    /** One more provider, whose silence is noticed early. */
    Child hasty() throws Exception {
        // The SDK refuses time-outs that aren't longer than the interval.
        Child child = provider("--spring.cloud.nacos.discovery.heart-beat-interval=1000",
                "--spring.cloud.nacos.discovery.heart-beat-timeout=3000",
                "--spring.cloud.nacos.discovery.ip-delete-timeout=6000");
        child.port();
        return child;
    }

    Child first() throws Exception {
        start();
        return first;
    }

    Child second() throws Exception {
        start();
        return second;
    }

    int consumerPort() throws Exception {
        start();
        return SpringApp.port(context);
    }

    DiscoveryClient discovery() throws Exception {
        start();
        return context.getBean(DiscoveryClient.class);
    }

    /** The providers that the consumer knows, each as its port and what was told of it. */
    Map<Integer, Map<String, String>> known() throws Exception {
        Map<Integer, Map<String, String>> found = new TreeMap<>();
        for (ServiceInstance instance : discovery().getInstances(provider)) {
            found.put(instance.getPort(), new TreeMap<>(instance.getMetadata()));
        }
        return found;
    }

    /** The port of the provider that the balancer of the consumer chose for one call. */
    int call() throws Exception {
        start();
        RestTemplate byName = context.getBean(RestTemplate.class);
        return Integer.parseInt(byName.getForObject("http://" + provider + "/port", String.class));
    }

    /** An instance as the application should have registered it. */
    static Instance registered(int port, double weight, String cluster, Map<String, String> metadata) {
        Map<String, String> all = new HashMap<>(metadata);
        all.put("preserved.register.source", "SPRING_CLOUD");
        Instance instance = new Instance();
        instance.setIp(Other.IP);
        instance.setPort(port);
        instance.setWeight(weight);
        instance.setClusterName(cluster);
        instance.setMetadata(all);
        return instance;
    }

    @Override
    public void close() throws Exception {
        for (Child child : children) {
            child.kill();
        }
        if (context != null) {
            // Closing it would take seconds; what a clean end does is seen at the providers.
            other.deregister(consumer, registered(SpringApp.port(context), 1, "DEFAULT", Map.of()));
        }
    }
}
