#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "data/text/json_sample.h"

namespace accrue::data {

/// Parsers for several threads, which are lent and reused: each caches the words that it has
/// tokenized.
class SampleParsers {
 public:
  using Make = std::function<std::unique_ptr<SampleParser>()>;
  explicit SampleParsers(Make make) : make_(std::move(make)) {}

  /// A parser for one thread, which is returned at the end.
  class Lent {
   public:
    Lent(SampleParsers& owner, std::unique_ptr<SampleParser> parser)
        : owner_(owner), parser_(std::move(parser)) {}
    ~Lent() { owner_.take_back(std::move(parser_)); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    SampleParser& operator*() const { return *parser_; }
    SampleParser* operator->() const { return parser_.get(); }

   private:
    SampleParsers& owner_;
    std::unique_ptr<SampleParser> parser_;
  };

  Lent lend() {
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
