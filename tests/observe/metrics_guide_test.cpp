#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "observe/full_step.h"
#include "observe/jsonl_sink.h"

/// docs/guide/metrics.md describes exactly the fields of metrics.jsonl.
namespace accrue::observe {
namespace {

using Names = std::set<std::string>;

/// The names in the first column of the tables below this heading.
Names rows_below(const std::string& heading) {
  std::ifstream guide(ACCRUE_METRICS_GUIDE);
  EXPECT_TRUE(guide) << ACCRUE_METRICS_GUIDE;
  Names names;
  bool is_below = false;
  for (std::string line; std::getline(guide, line);) {
    if (line.starts_with("## ")) is_below = line == "## " + heading;
    if (is_below && line.starts_with("| `")) names.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return names;
}

/// Fields with the guide's names: parts of an object joined by dots, except objects whose keys
/// depend on the run.
Names fields_of(const std::string& line) {
  Names names;
  const nlohmann::json parsed = nlohmann::json::parse(line);
  for (const auto& [name, value] : parsed.items()) {
    if (!value.is_object() || name == "losses" || name == "lrs" || name == "noise_scales") {
      names.insert(name);
      continue;
    }
    for (const auto& [part, unused] : value.items()) names.insert(name + "." + part);
  }
  return names;
}

TEST(MetricsGuide, HasTheFieldsOfAStep) {
  EXPECT_EQ(rows_below("A step"), fields_of(to_json_line(testing::full_step())));
}

TEST(MetricsGuide, HasTheFieldsOfAnEvaluation) {
  EXPECT_EQ(rows_below("An evaluation"),
            fields_of(to_json_line(Evaluation{.step = 1, .accuracy = 0.5}, 1)));
}

/// A field that is missing in this test's step could not be checked.
TEST(MetricsGuide, IsComparedWithAStepThatHasEverything) {
  const Names guide = rows_below("A step");
  for (const char* field : {"pipeline_bubble", "wire_bytes", "memory.packed", "batchnorm"})
    EXPECT_TRUE(guide.contains(field)) << field;
  EXPECT_FALSE(fields_of(to_json_line(StepReport{})).contains("memory.packed"));
}

}  // namespace
}  // namespace accrue::observe
