// accrue runs: the list of runs, and the state of each.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ioctl.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue_program.h"
#include "support/skip.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Runs : public AccrueProgram {
 protected:
  json listed(Words arguments = {}) const {
    arguments.insert(arguments.begin(), "runs");
    arguments.push_back("--json");
    const auto result = accrue(std::move(arguments));
    EXPECT_EQ(result.status, 0) << result.errors;
    return json::parse(result.output)["runs"];
  }

  void write_run(const std::string& name, const std::string& run_json,
                 const std::string& metrics) const {
    fs::create_directories(folder_ / name);
    write(name + "/run.json", run_json);
    write(name + "/metrics.jsonl", metrics);
  }

  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  /// The output on a terminal with so many columns; none if there is no terminal.
  std::optional<std::string> on_terminal(unsigned short columns, Words arguments) const {
    const int controller = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (controller < 0 || ::grantpt(controller) != 0 || ::unlockpt(controller) != 0) return {};
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(controller, TIOCSWINSZ, &size);
    const std::string terminal = ::ptsname(controller);
    const int held = ::open(terminal.c_str(), O_RDWR | O_NOCTTY);
    std::string command = "exec '" ACCRUE_PROGRAM "'";
    for (const std::string& word : arguments) command += " '" + word + "'";
    Program(folder_, {"/bin/sh", "-c", command + " >" + terminal}).wait();
    std::string text(1 << 16, '\0');
    const ssize_t got = ::read(controller, text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    ::close(held);
    ::close(controller);
    return text;
  }
};

TEST_F(Runs, ListTheNewestFirstAndWhatIsWrongWithARun) {
  write_run("runs/old", R"({"started":"2026-01-01T00:00:00Z","total_steps":2})",
            "{\"step\":1,\"loss\":3.25}\n{\"step\":2,\"loss\":2.125}\n");
  write_run("runs/group/new", R"({"started":"2026-01-02T00:00:00Z","total_steps":12000})",
            "{\"step\":1,\"loss\":3.5}\n{\"step\":2,\"lo");
  write_run("runs/broken", "{", "");
  fs::create_directories(folder_ / "runs" / "notes");
  const auto result = accrue({"runs"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  const auto lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 7U) << result.output;
  EXPECT_THAT(lines[0], StartsWith("run "));
  EXPECT_THAT(lines[1], AllOf(StartsWith("runs/group/new"), HasSubstr("stopped"),
                              HasSubstr("1/12,000"), HasSubstr("3.5")));
  EXPECT_THAT(lines[2], AllOf(StartsWith("runs/old"), HasSubstr("done"), HasSubstr("2/2"),
                              HasSubstr("2.125")));
  EXPECT_THAT(lines[3], AllOf(StartsWith("runs/broken"), HasSubstr("stopped")));
  EXPECT_EQ(lines[4],
            "note: runs/group/new/metrics.jsonl: the last line is half-written and left out");
  EXPECT_THAT(lines[5], HasSubstr("runs/broken/run.json: it is no JSON object"));
  EXPECT_THAT(lines[6], HasSubstr("runs/broken/metrics.jsonl: there is no step in it"));
}

TEST_F(Runs, AreLookedForInThisFolderWhereThereIsNoFolderOfThatName) {
  EXPECT_EQ(accrue({"runs"}).output, "no runs in .\n");
  EXPECT_THAT(listed(), IsEmpty());
  write_run("mine", "{}", "");
  ASSERT_EQ(listed().size(), 1U);
  EXPECT_EQ(listed()[0]["path"], "mine");
  EXPECT_EQ(listed({"mine"})[0]["path"], "mine");
  fs::create_directories(folder_ / "runs");
  EXPECT_EQ(accrue({"runs"}).output, "no runs in runs\n");
}

TEST_F(Runs, RefuseAFolderThatIsNone) {
  for (const char* none : {"nowhere", "file"}) {
    write("file", "");
    const auto result = accrue({"runs", none});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors, StartsWith(std::string("error: list runs in ") + none));
  }
}

TEST_F(Runs, FitTheTerminal) {
  const std::string name = "runs/a-run-with-a-long-name-that-says-all-of-its-settings-at-once";
  write_run(name, R"({"started":"2026-01-01T00:00:00Z","total_steps":2})",
            "{\"step\":2,\"time\":1767225600,\"loss\":3.25,\"seconds\":1,"
            "\"tokens_per_second\":1000}\n{\"step\":2,\"eval_loss\":2}\n");
  for (const unsigned short columns : {200, 80, 60, 40, 30}) {
    const auto shown = on_terminal(columns, {"runs"});
    if (!shown) return not_possible_here("this machine has no pseudo-terminals");
    ASSERT_GE(lines_of(*shown).size(), 2U) << columns;
    for (std::string line : lines_of(*shown)) {
      if (line.ends_with('\r')) line.pop_back();
      EXPECT_LE(line.size(), columns) << line;
    }
    EXPECT_THAT(*shown, AllOf(HasSubstr("state"), HasSubstr("done"), HasSubstr("2/2"))) << columns;
    EXPECT_EQ(shown->find("started") != std::string::npos, columns == 200) << *shown;
  }
  const std::string unbounded = accrue({"runs"}).output;
  EXPECT_THAT(unbounded, AllOf(HasSubstr(name), HasSubstr("ended"))) << "a pipe has any width";
}

}  // namespace
}  // namespace accrue::testing
