#include "train/config/toml/value.h"

#include <gtest/gtest.h>

namespace accrue::train {
namespace {

TEST(Equal, ComparesNumbersByValueAndTheRestByType) {
  EXPECT_TRUE(equal({std::int64_t{1}}, {1.0}));
  EXPECT_TRUE(equal({std::string("a")}, {std::string("a")}));
  EXPECT_TRUE(equal({Value::Array{{1.0}}}, {Value::Array{{std::int64_t{1}}}}));
  EXPECT_FALSE(equal({Value::Array{{1.0}}}, {Value::Array{}}));
  EXPECT_FALSE(equal({std::int64_t{1}}, {true}));
  EXPECT_FALSE(equal({std::string("1")}, {std::int64_t{1}}));
  EXPECT_FALSE(equal({false}, {true}));
}

TEST(Equal, ComparesTablesByTheirFields) {
  const Value table{Value::Table{{"path", {std::string("a")}}, {"weight", {1.0}}}};
  EXPECT_TRUE(
      equal(table, {Value::Table{{"path", {std::string("a")}}, {"weight", {std::int64_t{1}}}}}));
  EXPECT_FALSE(equal(table, {Value::Table{{"path", {std::string("b")}}, {"weight", {1.0}}}}));
  EXPECT_FALSE(equal(table, {Value::Table{{"path", {std::string("a")}}, {"share", {1.0}}}}));
  EXPECT_FALSE(equal(table, {Value::Table{{"path", {std::string("a")}}}}));
  EXPECT_FALSE(equal(table, {Value::Array{}}));
}

TEST(ToToml, WritesTablesInOneLine) {
  EXPECT_EQ(to_toml(Value{Value::Table{{"path", {std::string("a")}}, {"two words", {true}}}}),
            "{ path = \"a\", \"two words\" = true }");
  EXPECT_EQ(to_toml(Value{Value::Table{}}), "{}");
}

TEST(ToToml, TellsTypesApart) {
  EXPECT_EQ(to_toml(Value{1.0}), "1.0");
  EXPECT_EQ(to_toml(Value{std::int64_t{1}}), "1");
  EXPECT_EQ(to_toml(Value{1e-8}), "1e-08");
  EXPECT_EQ(to_toml(Value{std::string("a\"\\\n\x7f")}), "\"a\\\"\\\\\\n\\u007F\"");
  EXPECT_EQ(to_toml(Value{Value::Array{{true}, {0.5}}}), "[true, 0.5]");
}

}  // namespace
}  // namespace accrue::train
