"""Control groups of either version, for scripts that give a server so much memory and no more. Needs root."""

import os
import time

ROOT = "/sys/fs/cgroup"
IS_V2 = os.path.exists(f"{ROOT}/cgroup.controllers")


class Group:
    """A control group with so much memory, by a name that says whose it is."""

    def __init__(self, name, mib):
        # One level down in the second version, whose groups either have processes or limits for others.
        self.path = f"{ROOT}/{'' if IS_V2 else 'memory/'}tinaja-{name}-{os.getpid()}"
        os.mkdir(self.path)
        self.write("memory.max" if IS_V2 else "memory.limit_in_bytes", mib << 20)

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w") as file:
            file.write(str(value))

    def read(self, name):
        with open(f"{self.path}/{name}") as file:
            return file.read()

    def most_mib(self):
        return int(self.read("memory.peak" if IS_V2 else "memory.max_usage_in_bytes")) >> 20

    def ended_by_kernel(self):
        """How many of its processes the kernel has ended for their memory."""
        text = self.read("memory.events" if IS_V2 else "memory.oom_control")
        return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def remove(self):
        for _ in range(100):
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.05)
