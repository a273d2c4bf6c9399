#include "accrue/device/device.h"

#include <gmock/gmock.h>

#include "accrue/core/error.h"

namespace accrue::device {
namespace {

using ::testing::HasSubstr;

std::string refusal_of(std::string_view name) {
  try {
    open(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2) << error.what();
    return error.what();
  }
  return "none";
}

TEST(Device, TheCpuIsAlwaysThere) {
  EXPECT_TRUE(open("cpu").is_cpu());
  synchronize(open("cpu"));
}

TEST(Device, WhatIsNoDeviceIsRefusedWithWhatIs) {
  EXPECT_THAT(refusal_of("gpu9"), HasSubstr("\"cuda\""));
  EXPECT_THAT(refusal_of("meta"), HasSubstr("run.device"));
}

TEST(Device, AGpuIsThereOrItsAbsenceHasAReason) {
  const std::string refusal = refusal_of("cuda");
  if (refusal == "none") return;
  EXPECT_THAT(refusal, HasSubstr("run.device = \"cuda\""));
  EXPECT_THAT(refusal, HasSubstr("; try "));
  EXPECT_TRUE(best().is_cpu());
}

}  // namespace
}  // namespace accrue::device
