#include "data/section.h"

#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "data/described_by.h"

namespace accrue::data {
namespace {

class Section final : public DescribedBy {
 public:
  Section(std::shared_ptr<const Source> own, std::int64_t first, std::int64_t total)
      : DescribedBy(std::move(own)), first_(first), total_(total) {
    if (first < 0 || total < 1 || first > total - source().size())
      throw usage_error("section of data",
                        "a place for its " + std::to_string(source().size()) + " samples among " +
                            std::to_string(total),
                        samples(), "the total over all sections, and what lies before this one");
    if (!source().parts().empty())
      throw usage_error("section of data", "files that are joined", "data.weights",
                        "data.train without weights");
  }

  std::int64_t size() const override { return total_; }
  std::int64_t tokens(std::int64_t index) const override { return source().tokens(own(index)); }
  std::optional<std::int64_t> class_of(std::int64_t index) const override {
    return source().class_of(own(index));
  }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    return source().fetch(own(indices));
  }
  batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                std::span<const std::int64_t> draws) const override {
    return source().fetch_drawn(own(indices), draws);
  }

 private:
  std::vector<std::int64_t> own(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> found;
    found.reserve(indices.size());
    for (const std::int64_t index : indices) found.push_back(own(index));
    return found;
  }
  std::int64_t own(std::int64_t index) const {
    if (index >= first_ && index < first_ + source().size()) return index - first_;
    throw usage_error("fetch samples", "samples " + samples() + " of " + std::to_string(total_),
                      std::to_string(index), "the process that has the section of that sample");
  }
  std::string samples() const {
    return std::string("[").append(std::to_string(first_)) + ", " +
           std::to_string(first_ + source().size()) + ")";
  }

  std::int64_t first_, total_;
};

}  // namespace

std::unique_ptr<Source> section(std::shared_ptr<const Source> own, std::int64_t first,
                                std::int64_t total) {
  return std::make_unique<Section>(std::move(own), first, total);
}

}  // namespace accrue::data
