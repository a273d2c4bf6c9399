#pragma once

#include <gtest/gtest.h>

#include <string>

#include "accrue/memory/caching_allocator.h"
#include "device/tested_device.h"
#include "support/skip.h"
#include "train/tiny_run.h"

namespace accrue::train::testing {

using accrue::testing::open_tested_device;
using accrue::testing::tested_device;

/// `Fixture` if the tested device exists. Its memory is counted until the test is over, and then
/// the allocator frees what it keeps, since other processes' tests and cuDNN need it.
template <class Fixture>
class WithDevice : public Fixture {
 protected:
  void SetUp() override {
    Fixture::SetUp();
    if (!open_tested_device())
      accrue::testing::not_possible_here(std::string("there is no device called ") +
                                         tested_device().word +
                                         ", or this libtorch has no part for one");
  }
  void TearDown() override {
    memory::release_cached();
    memory::count_device(c10::kCPU);
    Fixture::TearDown();
  }
};

class OnDevice : public WithDevice<TinyRun> {
 protected:
  Config on_device(const std::string& out = "run") const {
    Config c = config(out);
    c.run.device = device_words.find(tested_device().word);
    c.model.dropout = 0.1;
    return c;
  }
  Config wide(std::int64_t samples) const {
    Config c = on_device();
    c.model.width = tested_device().width;
    c.model.heads = 4;
    c.model.context = tested_device().context;
    c.batch = {};
    c.batch.samples = samples;
    return c;
  }
};

}  // namespace accrue::train::testing
