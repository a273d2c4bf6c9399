#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "support/skip.h"

namespace accrue::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kInterrupted = 130;

class Signals : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  /// Whether the process has taken `signal` into its own hands: it came to its first lines.
  static bool catches(pid_t process, int signal) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string word; status >> word;) {
      if (word != "SigCgt:") continue;
      status >> word;
      return ((std::stoull(word, nullptr, 16) >> (signal - 1)) & 1) != 0;
    }
    return false;
  }

  bool has_steps(const std::string& run) const {
    const auto file = folder_ / run / "metrics.jsonl";
    return std::filesystem::exists(file) && read_file(file).find("\"lr\"") != std::string::npos;
  }

  Program start_long(const std::string& run) const {
    return start({"train", "run.toml", "--run.steps=1000000", "--run.out=" + run});
  }

  /// Resumed by the steps that are left, so its newest checkpoint is whole.
  void expect_resumes(const std::string& run) const {
    std::filesystem::path newest;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / run / "checkpoints"))
      if (entry.path().filename().string().starts_with("step-"))
        newest = std::max(newest, entry.path());
    if (newest.empty()) return;
    const auto state = nlohmann::json::parse(read_file(newest / "state.json"));
    EXPECT_TRUE(state.contains("step"));
    const auto result =
        accrue({"train", "run.toml", "--run.steps=60", "--run.out=" + run, "--resume"});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.errors.find("checkpoint_skipped"), std::string::npos) << result.errors;
  }
};

TEST_F(Signals, EachOfThemStopsARunWithACheckpoint) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string run = "run" + std::to_string(signal);
    Program program = start_long(run);
    wait_until([&] { return has_steps(run); });
    ::kill(program.process(), signal);
    const auto result = program.wait();
    EXPECT_EQ(result.status, kInterrupted) << signal << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("a checkpoint was written"));
  }
}

/// What a program writes to a terminal of its own, in which Ctrl-C is pressed once it `works`.
std::string on_a_terminal_with_ctrl_c(const std::filesystem::path& folder,
                                      std::vector<std::string> words,
                                      const std::function<bool()>& works) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  winsize size{.ws_row = 20, .ws_col = 70, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t process = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (process == 0) {
    ::setenv("TERM", "xterm", 1);
    if (::chdir(folder.c_str()) == 0) ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  if (process < 0) return "";
  std::thread press([&] {
    wait_until(works);
    EXPECT_EQ(::write(terminal, "\x03", 1), 1);
  });
  std::string written;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(terminal, part.data(), part.size())) > 0;)
    written.append(part.data(), static_cast<std::size_t>(count));
  press.join();
  int status = 0;
  ::waitpid(process, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kInterrupted) << written;
  ::close(terminal);
  return written;
}

TEST_F(Signals, WipeTheBarOfATerminal) {
  if (const int probe = ::posix_openpt(O_RDWR | O_NOCTTY); probe >= 0)
    ::close(probe);
  else
    return accrue::testing::not_possible_here("this machine has no pseudo-terminals");
  const std::string written = on_a_terminal_with_ctrl_c(
      folder_,
      {ACCRUE_PROGRAM, "train", "run.toml", "--run.steps=1000000", "--observe.progress=bar"},
      [&] { return has_steps("out"); });
  const std::size_t last = written.find("  interrupted\r\n");
  ASSERT_NE(last, std::string::npos) << written;
  const std::string wipe = "\r\x1b[J";
  const std::size_t wiped = written.rfind(wipe, last);
  ASSERT_NE(wiped, std::string::npos) << written;
  EXPECT_THAT(written.substr(wiped + wipe.size(), last - wiped - wipe.size()),
              ::testing::MatchesRegex("step +[0-9]+/1000000"));
  EXPECT_NE(written.rfind("[...", last), std::string::npos) << "no bar was drawn: " << written;
  EXPECT_EQ(written.find("[...", last), std::string::npos) << written;
}

TEST_F(Signals, MoreOfThemAtOnceChangeNothing) {
  Program program = start_long("out");
  wait_until([&] { return has_steps("out"); });
  for (int i = 0; i < 20; ++i)
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::kill(program.process(), signal);
  const auto result = program.wait();
  EXPECT_EQ(result.status, kInterrupted) << result.errors;
}

/// Windows of a thousand micro-batches, which take the better part of a second.
class SignalsInAWindow : public Signals {
 protected:
  static inline const Words long_windows{"--batch.tokens=16384", "--batch.micro=1",
                                         "--batch.last=drop", "--run.steps=3",
                                         "--run.keep_best=false"};

  Words training(const std::string& run, Words more = {}) const {
    Words words{"train", "run.toml", "--run.out=" + run};
    words.insert(words.end(), long_windows.begin(), long_windows.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Sends `signal` when the first step is done: in the middle of the second, but for bad luck.
  Program::Result signalled_in_a_window(const std::string& run, int signal,
                                        const Words& more = {}) const {
    Program program = start(training(run, more));
    wait_until([&] { return has_steps(run); });
    std::this_thread::sleep_for(100ms);
    ::kill(program.process(), signal);
    return program.wait();
  }

  /// What metrics.jsonl has of a step.
  nlohmann::json step_of(const std::string& run, int step) const {
    std::ifstream lines(folder_ / run / "metrics.jsonl");
    for (std::string text; std::getline(lines, text);) {
      auto line = nlohmann::json::parse(text);
      if (line.contains("lr") && line["step"] == step) return line;
    }
    return {};
  }

  std::string model_of(const std::string& run) const {
    return read_file(folder_ / run / "checkpoints/step-00000003/model.safetensors");
  }
};

TEST_F(SignalsInAWindow, KeepWhatIsDoneOfItToTheBit) {
  ASSERT_EQ(accrue(training("straight")).status, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = "run" + std::to_string(signal);
    const auto stopped = signalled_in_a_window(run, signal);
    EXPECT_EQ(stopped.status, kInterrupted) << stopped.errors;
    EXPECT_THAT(stopped.errors, HasSubstr("of 1024 micro-batches of step 2 are kept"));
    const auto list = accrue({"checkpoint", "list", run});
    EXPECT_THAT(list.output, HasSubstr("in the middle of step 2: "));
    const auto listed = nlohmann::json::parse(accrue({"checkpoint", "list", run, "--json"}).output);
    EXPECT_EQ(listed["checkpoints"][0]["middle"]["micro_batches"], 1024);
    EXPECT_EQ(accrue({"checkpoint", "verify", run}).status, 0);
    const auto resumed = accrue(training(run, {"--resume"}));
    EXPECT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_THAT(resumed.errors, HasSubstr("of 1024 micro-batches are done"));
    EXPECT_TRUE(model_of(run) == model_of("straight"));
  }
}

/// Memory is taken to have run out since: what is left runs in smaller micro-batches.
TEST_F(SignalsInAWindow, LetWhatIsLeftBeSplitAnew) {
  const Words pairs{"--batch.micro=2"};
  ASSERT_EQ(accrue(training("straight", pairs)).status, 0);
  signalled_in_a_window("out", SIGTERM, pairs);
  const auto checkpoint = folder_ / "out/checkpoints/step-00000001";
  auto state = nlohmann::json::parse(read_file(checkpoint / "state.json"));
  const auto done = state.at("middle").at("done").size();
  state.at("plan").at("micro_batch_now") = 1;
  auto manifest = nlohmann::json::parse(read_file(checkpoint / "manifest.json"));
  manifest["files"]["state.json"] = {{"bytes", state.dump().size()},
                                     {"xxh3", checksum_of(state.dump())}};
  write("out/checkpoints/step-00000001/state.json", state.dump());
  write("out/checkpoints/step-00000001/manifest.json", manifest.dump());
  Words again = pairs;
  again.push_back("--resume");
  const auto resumed = accrue(training("out", again));
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  const auto is = step_of("out", 2), was = step_of("straight", 2);
  EXPECT_EQ(is.at("micro_batches"), done + 1024 - 2 * done);
  EXPECT_EQ(is.at("weight"), was.at("weight"));
  EXPECT_NEAR(is.at("loss").get<double>(), was.at("loss").get<double>(), 1e-5);
  EXPECT_NEAR(is.at("grad_norm").get<double>(), was.at("grad_norm").get<double>(), 1e-4);
}

TEST_F(SignalsInAWindow, LeaveAFileWhoseDamageIsSeen) {
  signalled_in_a_window("out", SIGTERM);
  const auto file = folder_ / "out/checkpoints/step-00000001/window.safetensors";
  std::string content = read_file(file);
  content.back() = static_cast<char>(content.back() ^ 1);
  std::ofstream(file, std::ios::binary) << content;
  EXPECT_EQ(accrue({"checkpoint", "verify", "out"}).status, 1);
  const auto refused = accrue(training("out", {"--resume"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("window.safetensors"));
}

TEST_F(SignalsInAWindow, OfNoticeChangeNothingButTheCheckpoint) {
  ASSERT_EQ(accrue(training("straight")).status, 0);
  const auto noticed = signalled_in_a_window("out", SIGUSR2);
  EXPECT_EQ(noticed.status, 0) << noticed.errors;
  EXPECT_THAT(noticed.errors, HasSubstr("micro-batches of step 2 are kept"));
  EXPECT_TRUE(model_of("out") == model_of("straight"));
}

TEST_F(Signals, BeforeTheRunNothingIsLeftBehind) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Program program = start_long("out");
    wait_until([&] { return catches(program.process(), signal); });
    ::kill(program.process(), signal);
    const auto result = program.wait();
    EXPECT_EQ(result.status, kInterrupted) << result.errors;
    // Where the run had begun by then, it ended with a checkpoint.
    if (std::filesystem::exists(folder_ / "out")) {
      EXPECT_THAT(result.errors, HasSubstr("a checkpoint was written"));
    }
    std::filesystem::remove_all(folder_ / "out");
  }
}

TEST_F(Signals, StormsAtAnyMomentLeaveAWholeCheckpoint) {
  std::mt19937 random(16);
  for (int storm = 0; storm < 8; ++storm) {
    const std::string run = "storm" + std::to_string(storm);
    Program program = start({"train", "run.toml", "--run.steps=60", "--run.out=" + run});
    wait_until([&] {
      return catches(program.process(), SIGHUP) && catches(program.process(), SIGTERM) &&
             catches(program.process(), SIGINT);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
    for (int i = 0; i < 300; ++i) {
      constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
      ::kill(program.process(), signals[random() % 3]);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    }
    const auto result = program.wait();
    EXPECT_TRUE(result.status == kInterrupted || result.status == 0)
        << result.status << result.errors;
    if (std::filesystem::exists(folder_ / run)) expect_resumes(run);
  }
}

TEST_F(Signals, AHangUpThatIsIgnoredStaysSo) {
  Program program(folder_, {"/usr/bin/nohup", ACCRUE_PROGRAM, "train", "run.toml"});
  wait_until([&] { return catches(program.process(), SIGTERM); });
  EXPECT_FALSE(catches(program.process(), SIGHUP));
  for (int i = 0; i < 5; ++i) {
    ::kill(program.process(), SIGHUP);
    std::this_thread::sleep_for(20ms);
  }
  const auto result = program.wait();
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST_F(Signals, ALimitOnFileSizesIsAnErrorAndEarlierCheckpointsStand) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  std::filesystem::remove_all(folder_ / "out/checkpoints/step-00000004");
  const auto model = folder_ / "out/checkpoints/step-00000002/model.safetensors";
  const std::string before = read_file(model);
  const auto limit = std::to_string(before.size() / 2);
  Program limited(folder_, {"/usr/bin/prlimit", "--fsize=" + limit, ACCRUE_PROGRAM, "train",
                            "run.toml", "--resume"});
  const auto result = limited.wait();
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("File too large"));
  EXPECT_EQ(read_file(model), before);
  EXPECT_EQ(accrue({"train", "run.toml", "--resume"}).status, 0);
}

}  // namespace
}  // namespace accrue::testing
