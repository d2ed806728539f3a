package suite;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.servlet.http.HttpServletRequest;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.client.loadbalancer.LoadBalanced;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestTemplate;

/** An application as a user of Spring Cloud Alibaba writes one; provider and consumer are the same, under two names. */
@SpringBootConfiguration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class SpringApp {
    private static final int CALL_LIMIT_MS = 10_000;

    /** SpringApp HOST:PORT NAME [--PROPERTY=VALUE...]: a provider in a process of its own. */
    public static void main(String[] args) throws Exception {
        Script.ownHome();
        ConfigurableApplicationContext[] started = new ConfigurableApplicationContext[1];
        Child.serve(() -> {
            started[0] = start(args[0], args[1], Arrays.copyOfRange(args, 2, args.length));
            return port(started[0]);
        }, () -> started[0].close());
    }

    /** Comes back once the application serves and has registered; fails if it can't register. */
    static ConfigurableApplicationContext start(String server, String name, String... properties) {
        List<String> arguments = new ArrayList<>(List.of(
                "--spring.application.name=" + name,
                "--spring.cloud.nacos.discovery.server-addr=" + server,
                "--spring.cloud.nacos.discovery.ip=" + Other.IP,
                "--server.address=" + Other.IP,
                "--server.port=0",
                // Else the balancer goes on for 35 s with what it knew.
                "--spring.cloud.loadbalancer.cache.enabled=false",
                "--spring.main.banner-mode=off",
                "--logging.level.root=off"));
        arguments.addAll(List.of(properties));
        return new SpringApplicationBuilder(SpringApp.class).run(arguments.toArray(String[]::new));
    }

    static int port(ConfigurableApplicationContext context) {
        return context.getEnvironment().getRequiredProperty("local.server.port", Integer.class);
    }

    @Bean
    @LoadBalanced
    RestTemplate byName() {
        SimpleClientHttpRequestFactory connections = new SimpleClientHttpRequestFactory();
        connections.setConnectTimeout(CALL_LIMIT_MS);
        connections.setReadTimeout(CALL_LIMIT_MS);
        return new RestTemplate(connections);
    }

    /** What others may ask it by HTTP. */
    @RestController
    static final class Door {
        private final RestTemplate byName;

        Door(RestTemplate byName) {
            this.byName = byName;
        }

        @GetMapping("/port")
        String port(HttpServletRequest request) {
            return Integer.toString(request.getLocalPort());
        }

        /** What the named service answers to this application. */
        @GetMapping("/port-of/{service}")
        String portOf(@PathVariable("service") String service) {
            return byName.getForObject("http://" + service + "/port", String.class);
        }
    }
}
