#include "observe/tensorboard/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/tensorboard/hexadecimal.h"

/// The bytes are what TensorBoard's own messages serialise to
/// (tests/observe/tensorboard/expected.py).
namespace accrue::observe {
namespace {

using ::testing::HasSubstr;
using testing::hexadecimal;

TEST(Events, BeginAFile) {
  EXPECT_EQ(hexadecimal(version_event(1.5)),
            "09000000000000f83f1a0d627261696e2e4576656e743a3252080a06616363727565");
}

TEST(Events, MakeTensorBoardForget) {
  EXPECT_EQ(hexadecimal(restart_event({1.5, 300})), "09000000000000f83f10ac023a020801");
}

TEST(Events, HoldScalars) {
  const std::vector<Scalar> scalars{{"train/loss", 2.25F}, {"train/retries", 0}};
  EXPECT_EQ(hexadecimal(scalars_event({1.5, 3}, scalars)),
            "09000000000000f83f10032a290a110a0a747261696e2f6c6f737315000010400a140a0d"
            "747261696e2f726574726965731500000000");
}

TEST(Events, HoldTexts) {
  const std::vector<Text> texts{{"plan", "*h\u00e4h*"}};
  EXPECT_EQ(hexadecimal(texts_event({1.5, 1}, texts)),
            "09000000000000f83f10012a240a220a04706c616e4210080712041202080142062a68c3a4682a"
            "4a080a060a0474657874");
}

TEST(Events, HoldHistograms) {
  const std::vector<NamedHistogram> histograms{{"w",
                                                {.least = -1,
                                                 .most = 2,
                                                 .sum = 1.5,
                                                 .sum_of_squares = 5.25,
                                                 .count = 3,
                                                 .limits = {-0.5, 1, 2.5},
                                                 .counts = {1, 0, 2}}}};
  EXPECT_EQ(hexadecimal(histograms_event({1.5, 2}, "weights/", histograms)),
            "09000000000000f83f10022a700a6e0a09776569676874732f772a6109000000000000f0bf1100"
            "0000000000004019000000000000084021000000000000f83f2900000000000015403218000000"
            "000000e0bf000000000000f03f00000000000004403a18000000000000f03f0000000000000000"
            "0000000000000040");
}

TEST(Events, HoldHyperParameters) {
  const auto session = [](decltype(HyperParameter::value) value) {
    const std::vector<HyperParameter> parameters{{"optim.x", std::move(value)}};
    return hexadecimal(session_start_event({1.5, 1}, parameters));
  };
  EXPECT_EQ(session(false),
            "09000000000000f83f10012a510a4f0a1c5f68706172616d735f2f73657373696f6e5f73746172"
            "745f696e666f42060801120212004a270a250a0768706172616d73121a1a180a0d0a076f707469"
            "6d2e781202200029000000000000f83f");
  EXPECT_EQ(session(0.5),
            "09000000000000f83f10012a580a560a1c5f68706172616d735f2f73657373696f6e5f73746172"
            "745f696e666f42060801120212004a2e0a2c0a0768706172616d7312211a1f0a140a076f707469"
            "6d2e78120911000000000000e03f29000000000000f83f");
  EXPECT_EQ(session(std::string("adamw")),
            "09000000000000f83f10012a560a540a1c5f68706172616d735f2f73657373696f6e5f73746172"
            "745f696e666f42060801120212004a2c0a2a0a0768706172616d73121f1a1d0a120a076f707469"
            "6d2e7812071a056164616d7729000000000000f83f");
}

TEST(Events, EndARun) {
  EXPECT_EQ(hexadecimal(session_done_event({9.5, 7})),
            "09000000000000234010072a420a400a1a5f68706172616d735f2f73657373696f6e5f656e645f"
            "696e666f42060801120212004a1a0a180a0768706172616d73120d220b08011100000000000023"
            "40");
}

/// One byte that is not UTF-8 makes a reader refuse the whole message.
TEST(Events, MendStringsThatAreNoUtf8) {
  const std::vector<HyperParameter> parameters{{"a\xff", std::string("b\xfe")}};
  const std::string event = session_start_event({1.5, 1}, parameters);
  EXPECT_THAT(event, HasSubstr("a\uFFFD"));
  EXPECT_THAT(event, HasSubstr("b\uFFFD"));
  EXPECT_THAT(scalars_event({1.5, 1}, std::vector<Scalar>{{"\xc3", 1}}), HasSubstr("\uFFFD"));
  EXPECT_THAT(texts_event({1.5, 1}, std::vector<Text>{{"t", "\xc3("}}), HasSubstr("\uFFFD("));
}

}  // namespace
}  // namespace accrue::observe
