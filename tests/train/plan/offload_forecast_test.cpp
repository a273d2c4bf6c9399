#include "train/plan/offload_forecast.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "train/plan/offload_traffic.h"
#include "train/plan/storage.h"

namespace accrue::train {
namespace {

OffloadTraffic traffic_of(void (*change)(Config&)) {
  Config config;
  change(config);
  return offload_traffic(storage_of(config));
}

void in_bf16(Config& config) { config.precision.compute = models::Compute::bf16; }

/// The rows of docs/guide/larger_than_memory.md.
TEST(OffloadTraffic, IsThatOfTheTable) {
  const OffloadTraffic rows = traffic_of(in_bf16);
  EXPECT_EQ(rows.forward.read, 6);
  EXPECT_EQ(rows.forward.write, 2);
  EXPECT_EQ(rows.backward.read, 6);
  EXPECT_EQ(rows.backward.write, 4);
  EXPECT_EQ(rows.closing.read, 8);
  EXPECT_EQ(rows.closing.write, 0);
  EXPECT_EQ(rows.step.read, 16);
  EXPECT_EQ(rows.step.write, 12);
  EXPECT_EQ(rows.total().read, 36);
  EXPECT_EQ(rows.total().write, 18);
}

TEST(OffloadTraffic, FollowsTheNumberFormats) {
  const Traffic fp32 = traffic_of([](Config&) {}).total();
  EXPECT_EQ(fp32.read, 32) << "without copies";
  EXPECT_EQ(fp32.write, 16);
  const Traffic small = traffic_of([](Config& c) {
                          in_bf16(c);
                          c.optim.state = optim::StatePrecision::bf16;
                        }).total();
  EXPECT_EQ(small.read, 32);
  EXPECT_EQ(small.write, 14);
  const Traffic sums =
      traffic_of([](Config& c) { c.precision.accumulate = accum::Accumulation::bf16; }).total();
  EXPECT_EQ(sums.read, 26) << "2 bytes less in each of the three passes over the sums";
  EXPECT_EQ(sums.write, 14);
}

memory::Fact fact(std::int64_t samples, double seconds, bool fits = true,
                  Recompute recompute = Recompute::none) {
  return {{samples, recompute}, {.fits = fits, .peak_bytes = 1, .seconds = seconds}};
}

TEST(ComputeSecondsOfSample, IsTheSlopeOfTheLargestTrials) {
  // Transfers of 5 seconds, and 2 seconds a sample.
  const std::vector<memory::Fact> facts{fact(8, 21), fact(1, 7), fact(2, 9), fact(16, 0, false),
                                        fact(32, 1, true, Recompute::full)};
  EXPECT_DOUBLE_EQ(*compute_seconds_of_sample(facts, Recompute::none), 2);
  EXPECT_DOUBLE_EQ(*compute_seconds_of_sample(facts, Recompute::full), 1.0 / 32);
  EXPECT_FALSE(compute_seconds_of_sample(facts, Recompute::selective));
}

memory::Fact waiting_fact(std::int64_t samples, double seconds, double waited) {
  memory::Fact made = fact(samples, seconds);
  made.measured.waited_seconds = waited;
  return made;
}

TEST(WithoutWaits, LeavesTheSecondsOfCompute) {
  const std::vector<memory::Fact> facts = without_waits(
      {waiting_fact(1, 7, 5), waiting_fact(2, 7, 3), waiting_fact(4, 1, 1.5), fact(8, 0, false)});
  EXPECT_DOUBLE_EQ(facts[0].measured.seconds, 2);
  EXPECT_DOUBLE_EQ(facts[1].measured.seconds, 4);
  EXPECT_DOUBLE_EQ(facts[2].measured.seconds, 0) << "a wait that began before it";
  EXPECT_FALSE(facts[3].measured.fits);
  for (const memory::Fact& fact : facts) EXPECT_EQ(fact.measured.waited_seconds, 0);
  EXPECT_EQ(facts[1].point.micro_batch, 2);
  EXPECT_EQ(facts[1].measured.peak_bytes, 1);
}

TEST(WithoutWaits, MakesErrorsThoseOfTheCompute) {
  memory::Measured measured = waiting_fact(1, 8, 6).measured;
  measured.error = 0.01;
  EXPECT_DOUBLE_EQ(without_wait(measured).error, 0.04) << "0.08 of 2 seconds";
}

/// Both trials take as long as the disk, 7 seconds: they compute for 2 seconds a sample.
TEST(WithoutWaits, ShowsTheComputeOfTrialsThatTheDiskHeldUp) {
  const std::vector<memory::Fact> facts{waiting_fact(1, 7, 5), waiting_fact(2, 7, 3)};
  EXPECT_DOUBLE_EQ(*compute_seconds_of_sample(without_waits(facts), Recompute::none), 2);
  EXPECT_DOUBLE_EQ(*compute_seconds_of_sample(facts, Recompute::none), 0) << "the control";
}

TEST(ComputeSecondsOfSample, IsNeitherNegativeNorMoreThanTheTrialTook) {
  EXPECT_DOUBLE_EQ(*compute_seconds_of_sample({fact(1, 5), fact(2, 4)}, Recompute::none), 0);
  EXPECT_DOUBLE_EQ(*compute_seconds_of_sample({fact(1, 1), fact(2, 4)}, Recompute::none), 2);
}

/// A disk that reads 2 GB/s and writes 1 GB/s, 1e9 parameters, 2 seconds a sample.
OffloadedWindow window_of(std::int64_t samples) {
  return {.traffic = traffic_of(in_bf16),
          .parameters = 1'000'000'000,
          .rates = {.read = 2e9, .write = 1e9},
          .sample_seconds = 2,
          .samples = samples};
}

TEST(OffloadForecast, HidesTransfersBehindCompute) {
  const OffloadForecast forecast = forecast_offload(window_of(8));
  EXPECT_DOUBLE_EQ(forecast.bytes_read, 36e9);
  EXPECT_DOUBLE_EQ(forecast.bytes_written, 18e9);
  EXPECT_DOUBLE_EQ(forecast.forward_seconds, 5) << "4 of compute, 6 / 2 + 2 / 1 of transfers";
  EXPECT_DOUBLE_EQ(forecast.backward_seconds, 12) << "12 of compute, 6 / 2 + 4 / 1 of transfers";
  EXPECT_DOUBLE_EQ(forecast.step_seconds, 24) << "(8 + 16) / 2 + 12 / 1";
  EXPECT_DOUBLE_EQ(forecast.seconds(), 41);
  EXPECT_EQ(forecast.hiding_samples, 10);
}

/// One size was tried, which took 7 seconds a sample and waited in 5 of them. Forward has a quarter
/// of the compute to hide 6 / 2 + 2 / 1 = 5 seconds of transfers: 20 seconds, 10 samples.
TEST(OffloadForecast, OneTrialHidesNoMoreThanItComputes) {
  const std::vector<memory::Fact> facts{waiting_fact(1, 7, 5)};
  OffloadedWindow window = window_of(1);
  window.sample_seconds = *compute_seconds_of_sample(without_waits(facts), Recompute::none);
  EXPECT_EQ(forecast_offload(window).hiding_samples, 10);
  window.sample_seconds = *compute_seconds_of_sample(facts, Recompute::none);
  EXPECT_EQ(forecast_offload(window).hiding_samples, 3) << "the control";
}

/// Transfers of 5 seconds forward and 7 backward.
TEST(OffloadForecast, PassesTakeTheirComputeOrTheirTransfers) {
  const OffloadedWindow window = window_of(1);
  EXPECT_DOUBLE_EQ(seconds_of_passes(window, 4), 5 + 7);
  EXPECT_DOUBLE_EQ(seconds_of_passes(window, 16), 5 + 12);
  EXPECT_DOUBLE_EQ(seconds_of_passes(window, 40), 10 + 30);
}

TEST(OffloadForecast, WaitsForTheDiskIfTheBatchIsSmall) {
  const OffloadForecast forecast = forecast_offload(window_of(2));
  EXPECT_DOUBLE_EQ(forecast.forward_seconds, 5);
  EXPECT_DOUBLE_EQ(forecast.backward_seconds, 7);
  EXPECT_DOUBLE_EQ(forecast.seconds(), 36);
  EXPECT_EQ(forecast.hiding_samples, 10) << "does not depend on the batch";
}

/// The example of the guide: 500 GFLOP/s and a disk of 2 GB/s hide from 1,000 tokens on.
TEST(OffloadForecast, AgreesWithTheGuide) {
  OffloadedWindow window = window_of(1);
  window.rates = {.read = 2e9, .write = 2e9};
  window.sample_seconds = 8 * 1e9 / 500e9;  // of one token
  EXPECT_NEAR(static_cast<double>(forecast_offload(window).hiding_samples.value()), 1000, 1);
  window.sample_seconds = 0;
  EXPECT_FALSE(forecast_offload(window).hiding_samples);
}

}  // namespace
}  // namespace accrue::train
