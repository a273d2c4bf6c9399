#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "core/atomic_file.h"
#include "core/checksum.h"
#include "faulty_program.h"
#include "support/skip.h"

namespace accrue::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kSignals{"INT", "TERM", "HUP", "XCPU"};

class Signals : public FaultyProgram {
 protected:
  /// Whether the process has a handler for `signal`.
  static bool catches(pid_t process, int signal) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string word; status >> word;) {
      if (word != "SigCgt:") continue;
      status >> word;
      return ((std::stoull(word, nullptr, 16) >> (signal - 1)) & 1) != 0;
    }
    return false;
  }
};

TEST_F(Signals, EachOfThemStopsARunWithACheckpoint) {
  for (const std::string& signal : kSignals) {
    const auto result =
        accrue_with({{.at = "optimizer-step", .action = signal, .step = 3}}, long_run(signal));
    EXPECT_EQ(result.status, kInterrupted) << signal << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("interrupted after step 3; a checkpoint was written: " +
                                         signal + "/checkpoints/step-00000003"));
  }
}

/// The output of a program on a separate terminal, in which Ctrl-C is pressed at `pause`. The
/// terminal shows the key once the signal is sent; then the program continues.
std::string on_a_terminal_with_ctrl_c(const std::filesystem::path& folder,
                                      std::vector<std::string> words, const Pause& pause) {
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
  pause.wait();
  EXPECT_EQ(::write(terminal, "\x03", 1), 1);
  std::string written;
  bool is_pressed = false;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(terminal, part.data(), part.size())) > 0;) {
    written.append(part.data(), static_cast<std::size_t>(count));
    if (is_pressed || written.find("^C") == std::string::npos) continue;
    is_pressed = true;
    pause.release();
  }
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
  // The bar is redrawn after a tenth of a second at the earliest.
  const Fault time_passes{.at = "micro-batch", .action = "clock:1", .step = 2};
  const Pause pause(folder_, "works");
  const std::string written = on_a_terminal_with_ctrl_c(
      folder_,
      with({time_passes, pauses_in_step(3, "works")}, long_run("out", {"--observe.progress=bar"})),
      pause);
  const std::size_t last = written.find("  interrupted\r\n");
  ASSERT_NE(last, std::string::npos) << written;
  const std::string wipe = "\r\x1b[J";
  const std::size_t wiped = written.rfind(wipe, last);
  ASSERT_NE(wiped, std::string::npos) << written;
  EXPECT_THAT(written.substr(wiped + wipe.size(), last - wiped - wipe.size()),
              ::testing::MatchesRegex("step +2/1000000"));
  EXPECT_NE(written.rfind("[...", last), std::string::npos) << "no bar was drawn: " << written;
  EXPECT_EQ(written.find("[...", last), std::string::npos) << written;
}

TEST_F(Signals, MoreOfThemAtOnceChangeNothing) {
  std::vector<Fault> many;
  for (int i = 0; i < 20; ++i)
    for (const std::string& signal : kSignals) many.push_back(stops_in_step(2, signal));
  const auto result = accrue_with(many, long_run("out"));
  EXPECT_EQ(result.status, kInterrupted) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("2 of 4 micro-batches of step 2 are kept"));
}

/// Windows of 64 micro-batches.
class SignalsInAWindow : public Signals {
 protected:
  static inline const Words long_windows{"--batch.tokens=1024", "--batch.micro=1",
                                         "--batch.last=drop", "--run.steps=3",
                                         "--run.keep_best=false"};
  static constexpr int kSamples = 64, kDone = 20;

  Words training(const std::string& run, const Words& more = {}) const {
    Words words{"train", "run.toml", "--run.out=" + run};
    words.insert(words.end(), long_windows.begin(), long_windows.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// `signal` comes in the twentieth micro-batch of the second step.
  Program::Result signalled_in_a_window(const std::string& run, const std::string& signal,
                                        const Words& more = {}) const {
    return accrue_with({{.at = "micro-batch", .action = signal, .step = 2, .count = kDone}},
                       training(run, more));
  }

  /// The line of a step in metrics.jsonl.
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
  for (const std::string run : {"INT", "TERM"}) {
    const auto stopped = signalled_in_a_window(run, run);
    EXPECT_EQ(stopped.status, kInterrupted) << stopped.errors;
    EXPECT_THAT(stopped.errors, HasSubstr("20 of 64 micro-batches of step 2 are kept"));
    const auto list = accrue({"checkpoint", "list", run});
    EXPECT_THAT(list.output, HasSubstr("in the middle of step 2: "));
    const auto listed = nlohmann::json::parse(accrue({"checkpoint", "list", run, "--json"}).output);
    EXPECT_EQ(listed["checkpoints"][0]["middle"]["micro_batches"], kSamples);
    EXPECT_EQ(accrue({"checkpoint", "verify", run}).status, 0);
    const auto resumed = accrue(training(run, {"--resume"}));
    EXPECT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_THAT(resumed.errors, HasSubstr("20 of 64 micro-batches are done"));
    EXPECT_TRUE(model_of(run) == model_of("straight"));
  }
}

/// Memory is assumed to have run out since: the rest runs in smaller micro-batches.
TEST_F(SignalsInAWindow, LetWhatIsLeftBeSplitAgain) {
  const Words pairs{"--batch.micro=2"};
  ASSERT_EQ(accrue(training("straight", pairs)).status, 0);
  EXPECT_EQ(signalled_in_a_window("out", "TERM", pairs).status, kInterrupted);
  const auto checkpoint = folder_ / "out/checkpoints/step-00000001";
  auto state = nlohmann::json::parse(read_file(checkpoint / "state.json"));
  EXPECT_EQ(state.at("middle").at("done").size(), kDone);
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
  EXPECT_EQ(is.at("micro_batches"), kDone + kSamples - 2 * kDone);
  EXPECT_EQ(is.at("weight"), was.at("weight"));
  EXPECT_NEAR(is.at("loss").get<double>(), was.at("loss").get<double>(), 1e-5);
  EXPECT_NEAR(is.at("grad_norm").get<double>(), was.at("grad_norm").get<double>(), 1e-4);
}

TEST_F(SignalsInAWindow, LeaveAFileWhoseDamageIsSeen) {
  EXPECT_EQ(signalled_in_a_window("out", "TERM").status, kInterrupted);
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
  const auto noticed = signalled_in_a_window("out", "USR2");
  EXPECT_EQ(noticed.status, 0) << noticed.errors;
  EXPECT_THAT(noticed.errors, HasSubstr("20 of 64 micro-batches of step 2 are kept"));
  EXPECT_TRUE(model_of("out") == model_of("straight"));
}

/// Libraries are loaded before main.
TEST_F(Signals, WhileTheProgramIsLoadedAreTakenByIt) {
  for (const std::string& signal : kSignals) {
    const auto result = accrue_with({{.at = "load", .action = signal}}, long_run("out"));
    EXPECT_EQ(result.status, kInterrupted) << signal << result.errors;
  }
  const auto noticed = accrue_with({{.at = "load", .action = "USR2"}}, {"train", "run.toml"});
  EXPECT_EQ(noticed.status, 0) << noticed.errors;
  EXPECT_THAT(checkpoints_of("out"), ElementsAre("step-00000002", "step-00000004"));
}

TEST_F(Signals, WhileAnotherVerbIsLoadedEndItAsTheyDo) {
  const auto result = accrue_with({{.at = "load", .action = "TERM"}}, {"runs", "."});
  EXPECT_EQ(result.status, 128 + SIGTERM) << result.errors;
}

/// Schedulers send it as a notice that the job will end.
TEST_F(Signals, ThatLowerTheBudgetLeaveWhatTheRunNeeds) {
  for (const Words& more : {Words{}, Words{"--precision.accumulate=fixed"}}) {
    Words words{"train", "run.toml", "--run.out=out" + std::to_string(more.size())};
    words.insert(words.end(), more.begin(), more.end());
    const auto result =
        accrue_with({{.at = "load", .action = "USR1"}, stops_in_step(2, "USR1")}, words);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("SIGUSR1 takes nothing, as the run needs"));
  }
}

TEST_F(Signals, BeforeTheRunNothingIsLeftBehind) {
  for (const std::string& signal : kSignals) {
    const auto result = accrue_with({{.at = "plan", .action = signal}}, long_run("out"));
    EXPECT_EQ(result.status, kInterrupted) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  }
}

/// A point at which a storm of signals begins, and the state of the run after it.
struct Storm {
  const char* point;
  std::int64_t step, count;  ///< of the process, as in Fault
  std::vector<std::string> checkpoints;
  const char* middle;  ///< the message about a window that is kept in its middle
};

std::ostream& operator<<(std::ostream& out, const Storm& storm) { return out << storm.point; }

class SignalStorms : public Signals, public ::testing::WithParamInterface<Storm> {};

/// All signals at once, and again at every later point until the run ends.
TEST_P(SignalStorms, LeaveAWholeCheckpoint) {
  const Storm& storm = GetParam();
  std::vector<Fault> faults;
  for (const std::string& signal : kSignals) {
    faults.push_back(
        {.at = storm.point, .action = signal, .step = storm.step, .count = storm.count});
    faults.push_back({.at = "checkpoint:write", .action = signal, .step = storm.step, .count = 0});
    faults.push_back({.at = "checkpoint:wait", .action = signal, .step = storm.step, .count = 0});
  }
  const Words more{"--run.eval_every=2", "--run.keep=9"};
  const auto stopped = accrue_with(faults, long_run("out", more));
  EXPECT_EQ(stopped.status, kInterrupted) << stopped.errors;
  EXPECT_EQ(checkpoints_of("out"), storm.checkpoints);
  EXPECT_THAT(stopped.errors, HasSubstr(storm.middle));
  EXPECT_EQ(accrue({"checkpoint", "verify", "out"}).status, 0);
  const auto resumed = accrue({"train", "run.toml", "--resume", "--run.steps=6", more[0], more[1]});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_EQ(resumed.errors.find("checkpoint_skipped"), std::string::npos) << resumed.errors;
}

constexpr const char *kSecond = "step-00000002", *kThird = "step-00000003",
                     *kFourth = "step-00000004";
INSTANTIATE_TEST_SUITE_P(
    Signals, SignalStorms,
    ::testing::Values(Storm{"micro-batch", 4, 1, {kSecond, kThird}, "1 of 4 micro-batches"},
                      Storm{"micro-batch", 4, 4, {kSecond, kFourth}, "after step 4"},
                      Storm{"close-window", 4, 1, {kSecond, kFourth}, "after step 4"},
                      Storm{"optimizer-step", 4, 1, {kSecond, kFourth}, "after step 4"},
                      Storm{"log", 4, 5, {kSecond, kFourth}, "after step 4"},
                      Storm{"evaluation", 4, 1, {kSecond, kFourth}, "after step 4"},
                      Storm{"checkpoint:wait", 4, 1, {kSecond, kFourth}, "after step 4"}));

/// On the writing thread, and in step 5 on the training thread.
TEST_F(Signals, AStormWhileACheckpointIsWrittenLeavesItWhole) {
  const Pause writes(folder_, "writes"), trains(folder_, "trains"), raised(folder_, "raised");
  std::vector<Fault> faults{{.at = "micro-batch", .action = "pause:trains", .step = 5, .count = 2},
                            {.at = "checkpoint:write", .action = "pause:writes", .count = 2}};
  for (const std::string& signal : kSignals)
    faults.push_back({.at = "checkpoint:write", .action = signal, .count = 2});
  faults.push_back({.at = "checkpoint:write", .action = "tell:raised", .count = 2});
  Program program = start_with(faults, long_run("out", {"--run.keep=9"}));
  writes.wait();
  trains.wait();
  writes.release();
  raised.wait();
  trains.release();
  const auto stopped = program.wait();
  EXPECT_EQ(stopped.status, kInterrupted) << stopped.errors;
  EXPECT_THAT(stopped.errors, HasSubstr("2 of 4 micro-batches of step 5 are kept"));
  EXPECT_THAT(checkpoints_of("out"), ElementsAre("step-00000002", "step-00000004"));
  EXPECT_EQ(accrue({"checkpoint", "verify", "out"}).status, 0);
  EXPECT_EQ(accrue({"train", "run.toml", "--resume", "--run.steps=6"}).status, 0);
}

TEST_F(Signals, AHangUpThatIsIgnoredStaysSo) {
  const Pause pause(folder_, "first");
  Words words =
      with({pauses_in_step(1, "first"), {.at = "micro-batch", .action = "HUP", .count = 0}},
           {"train", "run.toml"});
  words.insert(words.begin(), "/usr/bin/nohup");
  Program program(folder_, words);
  pause.wait();
  EXPECT_TRUE(catches(program.process(), SIGTERM));
  EXPECT_FALSE(catches(program.process(), SIGHUP));
  pause.release();
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
