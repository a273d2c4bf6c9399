#include "data/parquet/table_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(TableColumns, AreThoseThatLinesHaveAsKeys) {
  const TableColumns columns =
      columns_of_table({"id", "text", "weight", "url", "loss_mask", "seq_lengths"});
  EXPECT_THAT(columns.read, ElementsAre("text", "weight", "loss_mask", "seq_lengths"));
  EXPECT_THAT(columns.unread, ElementsAre("id", "url"));
  const std::vector<std::string> beside_ids{"input_ids",       "labels",     "attention_mask",
                                            "completion_mask", "loss_mask",  "assistant_masks",
                                            "position_ids",    "seq_lengths"};
  EXPECT_THAT(columns_of_table(beside_ids).read, ElementsAreArray(beside_ids));
  EXPECT_THAT(columns_of_table({}).read, ElementsAre());
}

TEST(TableColumns, OfAlpacaAreReadTogether) {
  EXPECT_THAT(columns_of_table({"output", "input", "instruction", "history", "system", "x"}).read,
              ElementsAre("output", "input", "instruction", "history", "system"));
  EXPECT_THAT(columns_of_table({"text", "input", "output", "system", "history"}).read,
              ElementsAre("text"));
  EXPECT_THAT(columns_of_table({"text", "instruction", "input"}).unread,
              ElementsAre("instruction", "input"));
  const TableColumns columns = columns_of_table({"instruction", "input", "output", "text"});
  EXPECT_THAT(columns.read, ElementsAre("instruction", "input", "output"));
  EXPECT_THAT(columns.unread, ElementsAre("text")) << "the others in one, as tatsu-lab/alpaca has";
  EXPECT_THAT(columns_of_table({"conversations", "system", "input"}).read,
              ElementsAre("conversations", "system"));
}

TEST(TableColumns, MayHaveGapsWhereAValueMayBeLeftOut) {
  for (const char* name : {"tools", "weight", "chat_template_kwargs", "input", "system", "history"})
    EXPECT_TRUE(may_have_gaps(name)) << name;
  for (const char* name : {"text", "input_ids", "loss_mask", "position_ids", "output", "messages"})
    EXPECT_FALSE(may_have_gaps(name)) << name;
}

}  // namespace
}  // namespace accrue::data
