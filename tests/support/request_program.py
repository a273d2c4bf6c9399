"""Sends requests to a program that runs many of them in one process (requests.h)."""
import json
import subprocess


class RequestProgram:
    """The process is started by the first request, and ends with this one, which closes its stdin."""

    def __init__(self, path):
        self.path = str(path)
        self.process = None

    def run(self, *arguments):
        """CalledProcessError if the program refuses the request, or ended."""
        if self.process is None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = [str(argument) for argument in arguments]
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise subprocess.CalledProcessError(self.process.wait(), [self.path, *words])
        answer = json.loads(line)
        if answer["status"] != 0:
            raise subprocess.CalledProcessError(answer["status"], [self.path, *words], stderr=answer["error"])
