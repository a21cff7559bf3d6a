import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A YARN on loopback: one ResourceManager and two NodeManagers, whose containers are processes. It
 * writes what clients need to know into the folder that it is given, and ends with its input.
 */
public final class Yarn {
    public static void main(String[] arguments) throws Exception {
        YarnConfiguration conf = new YarnConfiguration();
        conf.set(YarnConfiguration.NM_VMEM_CHECK_ENABLED, "false");
        conf.set(YarnConfiguration.NM_MAX_PER_DISK_UTILIZATION_PERCENTAGE, "100");
        conf.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 256);
        MiniYARNCluster cluster = new MiniYARNCluster("coffer", 2, 1, 1);
        cluster.init(conf);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(60_000)) {
            throw new IllegalStateException("the NodeManagers do not connect");
        }
        Path site = Path.of(arguments[0], "yarn-site.xml");
        try (OutputStream out = Files.newOutputStream(site)) {
            cluster.getConfig().writeXml(out);
        }
        String address = cluster.getConfig().get(YarnConfiguration.RM_ADDRESS);
        System.out.println("YARN is ready at " + address);
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
