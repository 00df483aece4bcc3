"""The userland proxy: the process that carries published ports to containers where the firewall cannot lead there."""
