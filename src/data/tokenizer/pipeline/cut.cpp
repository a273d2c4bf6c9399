#include "data/tokenizer/pipeline/cut.h"

namespace accrue::data {

void Cutter::add(Extent match) {
  if (end_ < match.begin) piece({end_, match.begin}, how_.inverted);
  piece(match, !how_.inverted);
  end_ = match.end;
}

void Cutter::end() {
  if (end_ < text_.size()) piece({end_, text_.size()}, how_.inverted);
  flush();
}

void Cutter::flush() {
  if (open_) put(*open_);
  open_.reset();
}

void Cutter::piece(Extent extent, bool is_match) {
  using enum Cut::Behaviour;
  const bool after_match = previous_is_match_;
  previous_is_match_ = is_match;
  bool joins = false;  // whether the open word continues
  switch (how_.behaviour) {
    case isolated:
      put(extent);
      return;
    case removed:
      if (!is_match) put(extent);
      return;
    case merged_with_previous:  // the first of several matches in a row
      joins = is_match && !after_match;
      break;
    case contiguous:
      joins = is_match == after_match;
      break;
    case merged_with_next:  // the last of several matches in a row
      joins = !is_match && after_match;
      break;
  }
  if (joins && open_) {
    open_->end = extent.end;
    return;
  }
  flush();
  open_ = extent;
}

}  // namespace accrue::data
