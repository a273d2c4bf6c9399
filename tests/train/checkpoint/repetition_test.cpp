#include "train/checkpoint/repetition.h"

#include <gmock/gmock.h>

#include "support/errors.h"
#include "train/checkpoint/run_record_fixture.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RunRecordTest;

class RepetitionTest : public RunRecordTest {
 protected:
  void SetUp() override {
    RunRecordTest::SetUp();
    write(describe_run(info()));
    record_ = read_run_record(run());
    config_ = config_to_repeat(*record_);
  }
  Repetition compare(bool accept_data = false) const {
    return compare_with(*record_, {config_, environment_, data_, start_}, accept_data);
  }

  std::shared_ptr<const RunRecord> record_;
  RunData data_{.train = {text_}};
  std::string start_ = "start";
};

constexpr const char* same_bits = "the same bits are to be expected";
constexpr const char* other_bits = "the same bits are not to be expected, because of: ";

TEST_F(RepetitionTest, OfTheSameSaysThatNothingDiffers) {
  config_.run.out = "runs/second";
  environment_.host = "elsewhere";
  environment_.working_directory = "/home";
  const Repetition same = compare();
  EXPECT_TRUE(same.keeps_plan);
  EXPECT_THAT(same.differences, IsEmpty());
  EXPECT_THAT(same.history, IsEmpty());
  EXPECT_THAT(same.bits, HasSubstr(same_bits));
}

TEST_F(RepetitionTest, NamesEachThingThatBitsDependOn) {
  const auto found = [&](auto change) {
    RepetitionTest::SetUp();
    const RunEnvironment before = environment_;
    change();
    const Repetition repetition = compare();
    environment_ = before;
    EXPECT_THAT(repetition.bits, HasSubstr(other_bits));
    EXPECT_EQ(repetition.differences.size(), 1U);
    return repetition.differences.empty() ? "" : repetition.differences.front();
  };
  EXPECT_EQ(found([&] { environment_.versions["libtorch"] = "3"; }), "libtorch 2 then, 3 now");
  EXPECT_EQ(found([&] { environment_.processor = "B"; }), "processor A then, B now");
  EXPECT_EQ(found([&] { environment_.isa = "AVX512"; }), "isa AVX2 then, AVX512 now");
  EXPECT_EQ(found([&] { environment_.threads = 4; }), "threads 3 then, 4 now");
  EXPECT_THAT(found([&] { environment_.libraries["libm.so.6"] = "ef"; }),
              ::testing::EndsWith("its libraries: libm.so.6"));
  EXPECT_THAT(found([&] { environment_.libraries.erase("libc.so.6"); }), HasSubstr("libc.so.6"));
  EXPECT_EQ(found([&] { config_.run.seed = 7; }), "run.seed = 7 (was 1337)");
  EXPECT_EQ(found([&] { config_.run.steps = 7; }), "run.steps = 7 (was 6)");
  EXPECT_EQ(found([&] { start_ = "other"; }), "it starts from other parameters");
}

TEST_F(RepetitionTest, NamesWhatBitsDoNotDependOn) {
  environment_.commit = "c0ffee-dirty";
  environment_.ranks = 1;
  config_.run.keep = 9;
  const Repetition repetition = compare();
  EXPECT_THAT(
      repetition.differences,
      ElementsAre("run.keep = 9 (was 2)", "ranks 2 then, 1 now: they share the same whole batch",
                  "commit of the working directory c0ffee then, c0ffee-dirty now"));
  EXPECT_THAT(repetition.bits, HasSubstr(same_bits));
  environment_.commit.reset();
  EXPECT_THAT(compare().differences, ::testing::Contains(HasSubstr("c0ffee then, none now")));
}

TEST_F(RepetitionTest, PromisesBitsOfFixedSumsAlone) {
  config_.precision.accumulate = accum::Accumulation::fp32;
  environment_.ranks = 1;
  EXPECT_THAT(compare().bits,
              AllOf(HasSubstr("not promised"), HasSubstr("\"fp32\""), HasSubstr("ranks")));
}

TEST_F(RepetitionTest, PlansAnewWhereThePlanWasMadeFromSomethingElse) {
  config_.optim.lr = 0.5;
  EXPECT_TRUE(compare().keeps_plan);
  config_.model.width = 64;
  EXPECT_FALSE(compare().keeps_plan);
  config_.model.width = 384;
  EXPECT_TRUE(compare().keeps_plan);
  config_.batch.micro = 1;
  EXPECT_FALSE(compare().keeps_plan);
}

TEST_F(RepetitionTest, RefusesChangedDataByTheirNames) {
  data_.train[0].bytes = 120;
  EXPECT_THAT(usage_message([&] { compare(); }),
              AllOf(HasSubstr("data/a.txt grew from 100 bytes to 120 bytes"), HasSubstr("/work"),
                    HasSubstr("--accept-data")));
  const Repetition accepted = compare(true);
  EXPECT_THAT(accepted.differences, ElementsAre(HasSubstr("grew")));
  EXPECT_THAT(accepted.bits, HasSubstr(std::string(other_bits) + "data"));
  config_.data.train = {"data/b.txt"};
  EXPECT_THAT(compare().differences, ::testing::Contains(HasSubstr("grew")))
      << "who states other files accepts them";
}

/// A node's scratch folder has another path in each job.
TEST_F(RepetitionTest, OfDataThatMovedPromisesTheSameBits) {
  config_.data.train = {"/scratch/17/*.txt"};
  data_.train[0].path = "/scratch/17/a.txt";
  const Repetition moved = compare();
  EXPECT_TRUE(moved.keeps_plan);
  EXPECT_THAT(moved.differences, ElementsAre(HasSubstr("data.train")));
  EXPECT_THAT(moved.bits, HasSubstr(same_bits));
  data_.train[0].fingerprint = "other";
  const Repetition other = compare();
  EXPECT_FALSE(other.keeps_plan);
  EXPECT_THAT(other.bits, HasSubstr(std::string(other_bits) + "data"));
}

TEST_F(RepetitionTest, WeightsOfSourcesCountWhereverTheyLie) {
  config_.data.weights = {2};
  EXPECT_THAT(compare().bits, HasSubstr(std::string(other_bits) + "data.train"));
}

TEST(ChangedFiles, SeeAnotherOrderOfTheSameFiles) {
  const data::DataFile a{.path = "1/a", .bytes = 1, .fingerprint = "a"},
      b{.path = "2/b", .bytes = 1, .fingerprint = "b"};
  data::DataFile moved_a = a, moved_b = b;
  moved_a.path = "9/a";
  moved_b.path = "8/b";
  EXPECT_THAT(changed_files({a, b}, {moved_a, moved_b}), IsEmpty());
  EXPECT_THAT(changed_files({a, b}, {moved_b, moved_a}),
              ElementsAre("the files come in another order than before"));
}

TEST_F(RepetitionTest, SaysHowTheRunWentThatIsRepeated) {
  RunEnvironment later = environment_;
  later.threads = 1;
  Config longer = config_;
  longer.run.steps = 9;
  std::string text = describe_run(info());
  text = add_resumption(text,
                        {.step = 3, .config = config_, .environment = environment_, .data = data_});
  const auto history_now = [&] {
    write(text);
    record_ = read_run_record(run());
    config_ = config_to_repeat(*record_);
    return compare();
  };
  EXPECT_THAT(history_now().history, ElementsAre("the run was resumed after step 3"));
  EXPECT_THAT(history_now().bits, HasSubstr(same_bits));
  text = add_resumption(text, {.step = 4,
                               .config = longer,
                               .changes = {{"run.steps", "6", "9"}},
                               .environment = later,
                               .data = data_});
  EXPECT_THAT(history_now().history.back(),
              AllOf(HasSubstr("after step 4: run.steps = 9 (was 6)"), HasSubstr("threads 3 then")));
  EXPECT_THAT(history_now().bits, HasSubstr("what changed when it was resumed"));
}

TEST(ChangedFiles, AreEachNamed) {
  const data::DataFile text{.path = "data/a.txt", .bytes = 100, .fingerprint = "a"};
  const data::DataFile b{.path = "data/b.txt", .bytes = 50, .fingerprint = "b"};
  data::DataFile now = text;
  EXPECT_THAT(changed_files({text, b}, {text, b}), IsEmpty());
  EXPECT_THAT(changed_files({text, b}, {text}), ElementsAre("data/b.txt is missing"));
  EXPECT_THAT(changed_files({text}, {text, b}), ElementsAre("data/b.txt is new"));
  now.bytes = 99;
  EXPECT_THAT(changed_files({text}, {now}),
              ElementsAre("data/a.txt shrank from 100 bytes to 99 bytes"));
  now = text;
  now.fingerprint = "other";
  EXPECT_THAT(changed_files({text}, {now}),
              ElementsAre("data/a.txt has other content (100 bytes, as before)"));
  now = text;
  now.path = "moved/a.txt";
  EXPECT_THAT(changed_files({text}, {now}), IsEmpty()) << "data may move";
  EXPECT_THAT(changed_files({text, b}, {now, b}), IsEmpty());
  const data::DataFile namesake{.path = "other/a.txt", .bytes = 70, .fingerprint = "c"};
  EXPECT_THAT(changed_files({text}, {text, namesake}), ElementsAre("other/a.txt is new"));
  EXPECT_THAT(changed_files({text, namesake}, {text}), ElementsAre("other/a.txt is missing"));
  data::DataFile moved = namesake;
  moved.path = "moved/there/a.txt";
  EXPECT_THAT(changed_files({text, namesake}, {now, moved}), IsEmpty()) << "told by their content";
  const data::DataFile folder{.path = "cats", .files = 2000, .bytes = 9, .fingerprint = "f"};
  data::DataFile more = folder;
  more.files = 2001;
  EXPECT_THAT(changed_files({folder}, {more}),
              ElementsAre("cats: 2000 files then, 2001 files now"));
}

}  // namespace
}  // namespace accrue::train
