// Lines of metrics.jsonl that are lost or damaged are noticed.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "metrics_log.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LostMetrics : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  fs::path file(const std::string& run) const { return folder_ / run / "metrics.jsonl"; }

  /// Continues `out` with a log of this content; returns the events about it.
  std::vector<std::string> gone_on_with(const std::string& content) {
    fs::remove_all(folder_ / "out");
    fs::copy(folder_ / "kept", folder_ / "out", fs::copy_options::recursive);
    if (content.empty())
      fs::remove(file("out"));
    else
      write_file_atomically(file("out"), content);
    const auto run = accrue({"train", "run.toml", "--resume", "--run.steps=5"});
    EXPECT_EQ(run.status, 0) << run.errors;
    const MetricsLog log(folder_ / "out");
    EXPECT_EQ(log.steps().back(), 5);
    return log.events("metrics");
  }
};

TEST_F(LostMetrics, AreNamedAsTheRunGoesOn) {
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=kept"}).status, 0);
  const std::string whole = read_file(file("kept"));
  EXPECT_THAT(gone_on_with(whole), IsEmpty());
  EXPECT_THAT(gone_on_with(""), ElementsAre(HasSubstr("no line of steps 1 to 4;")));

  std::vector<std::size_t> begins{0};
  for (std::size_t feed = whole.find('\n'); feed + 1 < whole.size();
       feed = whole.find('\n', feed + 1))
    begins.push_back(feed + 1);
  for (const std::size_t begin : begins) {
    const std::string line = whole.substr(begin, whole.find('\n', begin) - begin);
    const json object = json::parse(line);
    SCOPED_TRACE(line);
    if (begin > 0) {
      EXPECT_THAT(gone_on_with(whole.substr(0, begin)), ElementsAre(HasSubstr("the run goes on")));
    }
    std::string other = whole;
    other[begin] = '#';
    EXPECT_THAT(gone_on_with(other), ElementsAre(HasSubstr("1 line that cannot be read")));
    if (!object.contains("lr")) continue;
    const std::string number = std::to_string(object["step"].get<int>());
    other = whole;
    EXPECT_THAT(gone_on_with(other.erase(begin, line.size() + 1)),
                ElementsAre(HasSubstr("no line of step " + number + ";")));
    other = whole;
    const std::size_t loss = other.find("\"loss\":", begin) + 7;
    other[loss] = other[loss] == '9' ? '1' : '9';
    EXPECT_THAT(gone_on_with(other), ElementsAre(HasSubstr("lines were changed")));
  }
}

}  // namespace
}  // namespace accrue::testing
