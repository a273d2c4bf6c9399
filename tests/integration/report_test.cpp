// accrue report: its output, the place of it, and its messages about incorrect folders.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Report : public AccrueProgram {
 protected:
  /// Writes a run folder: run.json and the lines of metrics.jsonl as given.
  void write_run(const std::string& name, const std::string& run_json,
                 const std::string& metrics) const {
    std::filesystem::create_directories(folder_ / name);
    write(name + "/run.json", run_json);
    write(name + "/metrics.jsonl", metrics);
  }

  static std::string steps(int count, const std::string& more = "") {
    std::string lines;
    for (int step = 1; step <= count; ++step)
      lines += "{\"step\": " + std::to_string(step) + ", \"loss\": " + std::to_string(5.0 / step) +
               more + "}\n";
    return lines;
  }

  /// The data in a page.
  json data_of(const std::string& file) const {
    const std::string page = read_file(folder_ / file);
    const std::string begin = "id=\"report-data\">";
    const std::size_t at = page.find(begin) + begin.size();
    return json::parse(page.substr(at, page.find("</script>", at) - at));
  }

  std::string refused(Words arguments) const {
    arguments.insert(arguments.begin(), "report");
    const auto result = accrue(arguments);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_THAT(result.errors, StartsWith("error: "));
    return result.errors;
  }
};

TEST_F(Report, OfARunThatTrained) {
  write_small_run();
  ASSERT_EQ(accrue({"train", "run.toml", "--run.eval_every=2"}).status, 0);
  const auto result = accrue({"report", "out"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(StartsWith("report       out/report.html ("), HasSubstr("to step 4")));
  EXPECT_THAT(result.errors, IsEmpty());
  const json run = data_of("out/report.html")["runs"][0];
  EXPECT_EQ(run["state"], "done");
  EXPECT_EQ(run["training"]["steps"], json({1, 2, 3, 4}));
  EXPECT_EQ(run["training"]["columns"]["loss"].size(), 4U);
  EXPECT_EQ(run["evaluations"]["steps"].back(), 4);
  EXPECT_EQ(run["config"]["optim.lr"], "0.01");
}

/// The tile, the legend, `accrue runs` and what train prints at its end.
TEST_F(Report, ShowsTheTrainingLossThatTheTerminalShows) {
  write_small_run();
  const auto trained = accrue({"train", "run.toml"});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  ASSERT_EQ(accrue({"report", "out"}).status, 0);
  const json run = data_of("out/report.html")["runs"][0];
  const double last = run["training"]["last"]["loss"].get<double>();
  const auto printed = [&](const char* format) {
    char text[32];
    std::snprintf(text, sizeof text, format, last);
    return std::string(text);
  };
  EXPECT_THAT(trained.output, HasSubstr("loss            " + printed("%.4f") + "\n"));
  const json& figures = run["figures"];
  const auto tile = std::find_if(figures.begin(), figures.end(), [](const json& figure) {
    return figure["id"] == "training_loss";
  });
  ASSERT_NE(tile, figures.end());
  EXPECT_EQ((*tile)["text"], printed("%.5g"));
  const auto runs = accrue({"runs", "--json"});
  EXPECT_EQ(json::parse(runs.output)["runs"][0]["loss"], last) << runs.output;
}

TEST_F(Report, HasTheNumbersOfTheMetrics) {
  write_run("a", "{}", steps(3));
  ASSERT_EQ(accrue({"report", "a"}).status, 0);
  EXPECT_EQ(data_of("a/report.html")["runs"][0]["training"]["columns"]["loss"],
            json({5.0, 2.5, 1.66667}));
}

TEST_F(Report, OfSeveralRunsGoesIntoTheCurrentFolder) {
  write_run("a", R"({"config": {"optim": {"lr": 0.1}}})", steps(3));
  write_run("b", R"({"config": {"optim": {"lr": 0.2}}})", steps(5));
  const auto result = accrue({"report", "a", "b"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const json data = data_of("report.html");
  EXPECT_EQ(data["runs"].size(), 2U);
  EXPECT_EQ(data["differences"], json::parse(R"([{"key": "optim.lr", "values": ["0.1", "0.2"]}])"));
  ASSERT_EQ(accrue({"report", "a", "b", "--out", "both.html"}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "both.html"));
}

TEST_F(Report, ReplacesReportsAndNothingElse) {
  write_run("a", "{}", steps(1));
  ASSERT_EQ(accrue({"report", "a"}).status, 0);
  write("a/metrics.jsonl", steps(2));
  ASSERT_EQ(accrue({"report", "a"}).status, 0);
  EXPECT_EQ(data_of("a/report.html")["runs"][0]["training"]["steps"].size(), 2U);
  write("mine.html", "<html>mine</html>");
  EXPECT_THAT(refused({"a", "--out", "mine.html"}), HasSubstr("which is something else"));
  EXPECT_EQ(read_file(folder_ / "mine.html"), "<html>mine</html>");
  EXPECT_THAT(refused({"a", "--out", "none/report.html"}), HasSubstr("whose folder does not"));
  EXPECT_THAT(refused({"a", "--out", "a"}), HasSubstr("a folder"));
}

TEST_F(Report, RefusesAFolderThatIsNoRunByName) {
  std::filesystem::create_directories(folder_ / "photos");
  write_run("a", "{}", steps(1));
  EXPECT_THAT(refused({"photos"}), HasSubstr("photos"));
  EXPECT_THAT(refused({"nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(refused({"a", "photos"}), HasSubstr("photos"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "report.html"));
  EXPECT_THAT(accrue({"report"}).errors, HasSubstr("RUN_DIR"));
}

TEST_F(Report, AHalfWrittenLastLineIsLeftOut) {
  write_run("a", "{}", steps(3) + "{\"step\": 4, \"lo");
  const auto result = accrue({"report", "a"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(data_of("a/report.html")["runs"][0]["training"]["steps"], json({1, 2, 3}));
}

TEST_F(Report, LinesThatAreNoneAreRemarkedOnAndTheRestIsShown) {
  write_run("a", "{}", "{\"step\": 1, \"loss\": 2}\nnot json\n{\"step\": 2, \"loss\": 1}\n");
  const auto result = accrue({"report", "a"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, AllOf(StartsWith("note: a: "), HasSubstr("line")));
  const json run = data_of("a/report.html")["runs"][0];
  EXPECT_EQ(run["training"]["steps"], json({1, 2}));
  EXPECT_FALSE(run["remarks"].empty());
}

TEST_F(Report, ARunOfALaterVersionShowsWhatItTells) {
  write_run("a",
            R"({"versions": "2.0", "machine": 3, "plan": [], "config": 7, "commit": {"id": 1}})",
            steps(2, R"(, "expert_balance": 0.5, "shape": [1, 2], "name": "x")"));
  const auto result = accrue({"report", "a"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const json data = data_of("a/report.html");
  EXPECT_EQ(data["charts"].back()["title"], "expert_balance");
  EXPECT_EQ(data["runs"][0]["training"]["columns"]["expert_balance"], 0.5);
}

TEST_F(Report, ARunWithoutAnythingIsAPageThatSaysSo) {
  write_run("a", "", "");
  write_run("b", "{not json", steps(1));
  for (const char* run : {"a", "b"}) ASSERT_EQ(accrue({"report", run}).status, 0) << run;
  EXPECT_TRUE(data_of("a/report.html")["charts"].empty());
  EXPECT_EQ(data_of("b/report.html")["charts"].size(), 1U);
}

TEST_F(Report, RunsOfOtherUnitsStandSideBySideWithARemark) {
  write_run("text", R"({"unit": "tokens"})", steps(2, R"(, "tokens": 64, "tokens_per_second": 5)"));
  write_run("images", R"({"unit": "samples"})", steps(2, R"(, "samples": 8, "seconds": 2)"));
  const auto result = accrue({"report", "text", "images"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("different units"));
  EXPECT_EQ(data_of("report.html")["runs"].size(), 2U);
}

TEST_F(Report, TextOfARunCannotBecomeMarkup) {
  write_run(
      "a", "{}",
      steps(1) +
          R"({"step": 1, "event": "</script>", "reason": "</script><script>alert(1)</script>"})" +
          "\n");
  ASSERT_EQ(accrue({"report", "a"}).status, 0);
  EXPECT_THAT(read_file(folder_ / "a/report.html"), Not(HasSubstr("alert(1)</script>")));
  EXPECT_EQ(data_of("a/report.html")["runs"][0]["events"][0][3],
            "</script><script>alert(1)</script>");
}

TEST_F(Report, WatchesUntilItIsInterrupted) {
  write_run("a", "{}", steps(1));
  Program program = start({"report", "a", "--watch"});
  const auto is_written = [&](std::size_t count) {
    return std::filesystem::exists(folder_ / "a/report.html") &&
           data_of("a/report.html")["runs"][0]["training"]["steps"].size() == count;
  };
  wait_until([&] { return is_written(1); });
  write("a/metrics.jsonl", steps(2));
  wait_until([&] { return is_written(2); });
  ::kill(program.process(), SIGINT);
  const auto result = program.wait();
  EXPECT_EQ(result.status, 128 + SIGINT);
  EXPECT_THAT(result.output, HasSubstr("Ctrl-C ends this"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "a"))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("tmp")))
        << "nothing is left behind";
}

}  // namespace
}  // namespace accrue::testing
