#include <utility>

#include "data/renumbered.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

class Slice final : public Renumbered {
 public:
  Slice(std::shared_ptr<const Source> whole, std::int64_t begin, std::int64_t end)
      : Renumbered(std::move(whole)), begin_(begin), end_(end) {
    const std::int64_t all = source().size();
    if (begin < 0 || begin > end || end > all) {
      throw usage_error("slice data", "a part of its " + std::to_string(all) + " samples", range(),
                        "a smaller val_fraction or more data");
    }
  }

  std::int64_t size() const override { return end_ - begin_; }
  /// The parts of a mixture are consecutive: a slice has none of them.
  std::vector<MixturePart> parts() const override { return {}; }
  std::string fingerprint() const override {
    return source().fingerprint() + ", samples " + range();
  }

 private:
  std::int64_t number_in_source(std::int64_t index) const override {
    require_index(index, size());
    return begin_ + index;
  }
  std::string range() const {
    return std::string("[").append(std::to_string(begin_)) + ", " + std::to_string(end_) + ")";
  }

  std::int64_t begin_;
  std::int64_t end_;
};

}  // namespace

std::unique_ptr<Source> slice(std::shared_ptr<const Source> source, std::int64_t begin,
                              std::int64_t end) {
  return std::make_unique<Slice>(std::move(source), begin, end);
}

}  // namespace accrue::data
