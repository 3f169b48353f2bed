import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/**
 * A node without the scripts, modules and security manager of a distribution. The arguments are the folder of its data,
 * and further settings as NAME=VALUE.
 */
public class OpenSearchNode extends Node {
    OpenSearchNode(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "node"),
            List.of(Netty4Plugin.class),
            false);
    }

    public static void main(String[] arguments) throws Exception {
        var home = Path.of(arguments[0]);
        var settings = Settings.builder()
            .put("path.home", home)
            .put("cluster.name", "test")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("transport.port", "0")
            .put("http.type", "netty4")
            .put("transport.type", "netty4");
        for (int at = 1; at < arguments.length; at++) {
            var setting = arguments[at].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        LogConfigurator.configureWithoutConfig(settings.build());
        new OpenSearchNode(settings.build()).start();
        System.out.println("the node is ready");
        Thread.currentThread().join();
    }
}
