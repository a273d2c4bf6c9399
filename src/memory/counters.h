#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>

#include "accrue/memory/caching_allocator.h"

namespace accrue::memory {

/// A level and its maximum.
class Level {
 public:
  void add(std::int64_t bytes) { raise_peak(now_ += bytes); }
  void remove(std::int64_t bytes) { now_ -= bytes; }
  /// Starts the peak again; returns its former value.
  std::int64_t restart_peak() {
    const std::int64_t before = peak_.exchange(now_);
    raise_peak(now_);  // another thread may have changed `now_` between the two reads
    return before;
  }
  void raise_peak(std::int64_t bytes) {
    std::int64_t seen = peak_;
    while (bytes > seen && !peak_.compare_exchange_weak(seen, bytes)) {
    }
  }
  std::int64_t now() const { return now_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::atomic<std::int64_t> now_{0}, peak_{0};
};

/// A released block: the bytes requested, and its tag.
struct Released {
  std::size_t bytes = 0;
  MemoryTag tag = MemoryTag::working;
};

/// Counts of any thread, without a lock.
class Counters {
 public:
  void add_live(std::size_t bytes, MemoryTag tag) {
    live_.add(static_cast<std::int64_t>(bytes));
    if (tag != MemoryTag::working) tagged(tag) += static_cast<std::int64_t>(bytes);
  }
  void remove_live(const Released& block) {
    live_.remove(static_cast<std::int64_t>(block.bytes));
    if (block.tag != MemoryTag::working)
      tagged(block.tag) -= static_cast<std::int64_t>(block.bytes);
  }
  void add_reserved(std::size_t bytes) { reserved_.add(static_cast<std::int64_t>(bytes)); }
  void remove_reserved(std::size_t bytes) { reserved_.remove(static_cast<std::int64_t>(bytes)); }
  void count_system_call() { ++system_calls_; }

  /// Counts one allocation; false if a test wants it to fail.
  bool count_allocation() {
    const std::int64_t ordinal = ++allocations_;
    return ordinal < fail_from_ || ordinal >= fail_until_;
  }
  /// Allocations with ordinals in [from, until) fail.
  void fail(std::int64_t from, std::int64_t until) {
    fail_until_ = until;
    fail_from_ = from;
  }
  void fail_none() { fail(kNever, kNever); }

  std::int64_t reserved() const { return reserved_.now(); }
  Peak peak() const { return {live_.peak(), reserved_.peak()}; }
  Peak restart_peak() { return {live_.restart_peak(), reserved_.restart_peak()}; }
  void raise_peak(const Peak& peak) {
    live_.raise_peak(peak.live);
    reserved_.raise_peak(peak.reserved);
  }

  Usage usage() const {
    Usage now{.live = live_.now(),
              .live_by_tag = {},
              .reserved = reserved_.now(),
              .system_calls = system_calls_,
              .allocations = allocations_};
    std::int64_t working = now.live;
    for (std::size_t tag = 1; tag < kMemoryTags; ++tag)
      working -= now.live_by_tag[tag] = live_by_tag_[tag];
    now.live_by_tag[0] = working;
    return now;
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static_assert(static_cast<std::size_t>(MemoryTag::working) == 0);

  std::atomic<std::int64_t>& tagged(MemoryTag tag) {
    return live_by_tag_[static_cast<std::size_t>(tag)];
  }

  Level live_, reserved_;
  /// Every tag except `working` has a counter; that one, the most frequent, is the remainder.
  std::array<std::atomic<std::int64_t>, kMemoryTags> live_by_tag_{};
  std::atomic<std::int64_t> system_calls_{0}, allocations_{0};
  std::atomic<std::int64_t> fail_from_{kNever}, fail_until_{kNever};
};

}  // namespace accrue::memory
