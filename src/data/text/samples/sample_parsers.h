#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "data/text/samples/json_sample.h"

namespace accrue::data {

/// Parsers for several threads, which are lent and reused: each caches the words that it has
/// tokenized.
class SampleParsers {
 public:
  using Make = std::function<std::unique_ptr<SampleParser>()>;
  explicit SampleParsers(Make make) : make_(std::move(make)) {}

  /// A parser for one thread, which is returned at the end.
  class Lease {
   public:
    Lease(SampleParsers& owner, std::unique_ptr<SampleParser> parser)
        : owner_(owner), parser_(std::move(parser)) {}
    ~Lease() { owner_.take_back(std::move(parser_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    SampleParser& operator*() const { return *parser_; }
    SampleParser* operator->() const { return parser_.get(); }

   private:
    SampleParsers& owner_;
    std::unique_ptr<SampleParser> parser_;
  };

  Lease acquire() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {*this, make_()};
    std::unique_ptr<SampleParser> parser = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(parser)};
  }

 private:
  void take_back(std::unique_ptr<SampleParser> parser) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(parser));
  }

  Make make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<SampleParser>> free_;
};

}  // namespace accrue::data
