#include "verify/report_fields.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace accrue::proof {
namespace {

using nlohmann::json;

json object_of(const auto& whole);

json value_of(const auto& value) { return value; }
json value_of(const std::vector<ParameterError>& parts) {
  json list = json::array();
  for (const ParameterError& part : parts) list.push_back(object_of(part));
  return list;
}
json value_of(const std::vector<SmallestFault>& parts) {
  json list = json::array();
  for (const SmallestFault& part : parts) list.push_back(object_of(part));
  return list;
}

json object_of(const auto& whole) {
  json object = json::object();
  each_field(whole, [&](const char* name, const auto& value) {
    EXPECT_FALSE(object.contains(name)) << name;
    object[name] = value_of(value);
  });
  return object;
}

TEST(ReportFields, AreTheReportByName) {
  const Report report{.equal = false,
                      .conclusive = true,
                      .max_relative_error = 0.5,
                      .bound = 0.25,
                      .cause = Cause::weighting,
                      .besides = {Cause::batchnorm},
                      .evidence = {"parts weigh the same"},
                      .ruled_out = {"dropout: there is none"},
                      .smallest_fault = {{.kind = "a bias scaled", .relative = 0.125}},
                      .left_out = {"ranks"},
                      .reference = "one pass over 8 samples",
                      .parameters = {{.name = "bias", .relative_error = 0.5, .bound = 0.25}}};
  json expected = json::parse(R"({
    "equal": false, "conclusive": true, "max_relative_error": 0.5, "bound": 0.25,
    "cause": "weighting", "causes": ["weighting", "batchnorm"],
    "evidence": ["parts weigh the same"], "ruled_out": ["dropout: there is none"],
    "left_out": ["ranks"], "reference": "one pass over 8 samples",
    "smallest_fault": [{"kind": "a bias scaled", "relative": 0.125}],
    "parameters": [{"name": "bias", "relative_error": 0.5, "bound": 0.25}]
  })");
  expected["conclusion"] = conclusion(report);
  expected["advice"] = advice(report);
  EXPECT_EQ(object_of(report), expected);
}

TEST(ReportFields, OfAnEqualReportHaveNoCause) {
  const json fields = object_of(Report{});
  EXPECT_EQ(fields.at("equal"), true);
  EXPECT_EQ(fields.at("cause"), "none");
  EXPECT_TRUE(fields.at("causes").empty());
  EXPECT_EQ(fields.at("advice"), "");
}

}  // namespace
}  // namespace accrue::proof
